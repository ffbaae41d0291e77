"""Logs: one JSON object a line on stdout, with service and whatever else is bound. Knows structlog, nothing of ours.

Nobody waits for a line to be written (`shared.log_writer`). Prompts, outputs and keys are not logged. Event names are
stable: dashboards are built from them.
"""

from __future__ import annotations

import atexit
import logging as stdlib
from typing import Any, BinaryIO, TextIO, cast

import msgspec
import structlog

from shared.log_writer import LineWriter

Logger = structlog.stdlib.BoundLogger

_stdout, _stderr = LineWriter(1), LineWriter(2)  # the process has one of each


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
        logger_factory=_factory(json_lines),
        cache_logger_on_first_use=True,
    )
    stdlib.basicConfig(level=stdlib.WARNING, stream=_stderr)
    atexit.register(drain)


def say(text: str) -> None:
    """For people, between the lines."""
    _stdout.write(text)


def drain() -> None:
    """Before the process ends: give what was said a moment to be written."""
    _stdout.drain()
    _stderr.drain()


def _factory(json_lines: bool) -> structlog.typing.WrappedLogger:
    """Both write a line at once, so that lines of several processes do not mix."""
    if json_lines:
        return structlog.BytesLoggerFactory(cast(BinaryIO, _stdout))
    return structlog.WriteLoggerFactory(cast(TextIO, _stdout))


def _json(line: structlog.typing.EventDict, **_options: Any) -> bytes:
    return msgspec.json.encode(line, enc_hook=repr)


def get(**bound: Any) -> Any:
    """A logger with these values on each of its lines."""
    return structlog.get_logger(**bound)
