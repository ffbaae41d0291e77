"""Logs: one JSON object a line on stdout, with service and whatever else is bound. Knows structlog, nothing of ours.

On a terminal it is a line for people. A second writer gets the same lines, always as JSON (`shared.log_files`).
docs/logs.md lists the events.

Nobody waits for a line to be written (`shared.log_writer`). Prompts, outputs and keys are not logged, and what else
may come from a client is made fit (`shared.log_text`). Event names are stable: dashboards are built from them.
"""

from __future__ import annotations

import atexit
import logging as stdlib
import sys
from typing import Any, BinaryIO, Literal, TextIO, TypeAlias, cast

import msgspec
import structlog

from sapwood.commands.terminal import paint_for
from shared.log_text import LONGEST_MESSAGE, exception_text, plain
from shared.log_writer import LineWriter

_stdout = LineWriter(1)  # the process has one
_kept: list[LineWriter] = []  # and these beside it


Form: TypeAlias = Literal["auto", "json", "console"]  # auto: for people on a terminal, else JSON


def configure(service: str, *, level: str = "info", form: Form = "auto", file: LineWriter | None = None) -> None:
    """Set up logging of this process; `service` stands on every line, whichever thread writes it."""
    json_lines = form == "json" or (form == "auto" and not sys.stdout.isatty())
    if file is not None:
        _kept.append(file)

    def add_service(_logger: Any, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {"event": line.pop("event"), "service": service, **line}

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            add_service,
            _fit,
            _rendering(file, None if json_lines else _console()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(stdlib, level.upper())),
        logger_factory=_factory(json_lines),
        cache_logger_on_first_use=True,
    )
    stdlib.basicConfig(level=stdlib.WARNING, handlers=[_LibraryLines()])
    stdlib.captureWarnings(True)
    atexit.register(drain)


def say(text: str) -> None:
    """For people, between the lines."""
    _stdout.write(text)


def drain() -> None:
    """Before the process ends: give what was said a moment to be written."""
    for writer in (_stdout, *_kept):
        writer.drain()


class _LibraryLines(stdlib.Handler):
    """What libraries log becomes lines as all others."""

    def emit(self, record: stdlib.LogRecord) -> None:
        message = record.getMessage()[:LONGEST_MESSAGE]
        get().log(record.levelno, "library", logger=record.name, message=message, exc_info=record.exc_info)


def _fit(_logger: Any, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Exceptions as text, and no control characters but the line ends of an exception's."""
    error = _exception(line.pop("exc_info", None))
    fit: structlog.typing.EventDict = plain(line)
    return fit if error is None else {**fit, "exception": exception_text(error)}


def _exception(exc_info: Any) -> BaseException | None:
    """Of what loggers are given: an exception, the triple of one, or whether there is one."""
    match exc_info:
        case BaseException():
            return exc_info
        case (_, error, _):
            return _exception(error)
        case _:
            return sys.exception() if exc_info else None


def _rendering(file: LineWriter | None, console: structlog.dev.ConsoleRenderer | None) -> structlog.typing.Processor:
    """As JSON for the file, and on stdout unless that has a form for people; encoded once."""

    def render(logger: Any, method: str, line: structlog.typing.EventDict) -> str | bytes:
        encoded = msgspec.json.encode(line, enc_hook=repr)
        if file is not None:
            file.write(encoded + b"\n")
        return encoded if console is None else console(logger, method, line)

    return render


def _console() -> structlog.dev.ConsoleRenderer:
    colours = paint_for(sys.stdout).has_colours
    plain_traceback = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=colours, sort_keys=False, exception_formatter=plain_traceback)


def _factory(json_lines: bool) -> structlog.typing.WrappedLogger:
    """Both write a line at once, so that lines of several processes do not mix."""
    if json_lines:
        return structlog.BytesLoggerFactory(cast(BinaryIO, _stdout))
    return structlog.WriteLoggerFactory(cast(TextIO, _stdout))


def get(**bound: Any) -> Any:
    """A logger with these values on each of its lines."""
    return structlog.get_logger(**bound)
