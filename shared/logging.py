"""Logs: one JSON object a line on stdout, with service and whatever else is bound. Knows structlog, nothing of ours.

Prompts, outputs and keys are not logged. Event names are stable: dashboards are built from them.
"""

from __future__ import annotations

import logging as stdlib
import sys
from typing import Any

import msgspec
import structlog

Logger = structlog.stdlib.BoundLogger


def configure(service: str, *, level: str = "info", json_lines: bool = True) -> None:
    """Set up logging of this process; `service` stands on every line, whichever thread writes it."""

    def add_service(_logger: Any, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {"event": line.pop("event"), "service": service, **line}

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            add_service,
            structlog.processors.JSONRenderer(_json) if json_lines else structlog.dev.ConsoleRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(stdlib, level.upper())),
        # a line is one write, so that lines of several processes do not mix
        logger_factory=structlog.BytesLoggerFactory() if json_lines else structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    stdlib.basicConfig(level=stdlib.WARNING, stream=sys.stderr)


def _json(line: structlog.typing.EventDict, **_options: Any) -> bytes:
    return msgspec.json.encode(line, enc_hook=repr)


def get(**bound: Any) -> Any:
    """A logger with these values on each of its lines."""
    return structlog.get_logger(**bound)
