"""Logs: one JSON object a line on stdout, with service and whatever else is bound. Knows structlog, nothing of ours.

Prompts, outputs and keys are not logged. Event names are stable: dashboards are built from them.
"""

from __future__ import annotations

import logging as stdlib
import sys
from typing import Any

import structlog

Logger = structlog.stdlib.BoundLogger


def configure(service: str, *, level: str = "info", json_lines: bool = True) -> None:
    """Set up logging of this process; `service` is bound to every line."""
    renderer: Any = structlog.processors.JSONRenderer() if json_lines else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("event"),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(stdlib, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    stdlib.basicConfig(level=stdlib.WARNING, stream=sys.stderr)


def get(**bound: Any) -> Any:
    """A logger with these values on each of its lines."""
    return structlog.get_logger(**bound)
