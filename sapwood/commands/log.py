"""`sapwood log REQUEST_ID`: all that the processes have said of one request, in order. Needs no server.

Knows files of log lines, and which fields every line has (docs/logs.md).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from sapwood.commands import connection
from sapwood.dashboard.log_reader import LogReader
from sapwood.local_server import local_logs

OWN_COLUMNS = frozenset({"event", "service", "timestamp", "request_id"})


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    place = Path(arguments.place)
    if not os.access(place, os.R_OK):
        connection.complain(f"{place} cannot be read" if place.exists() else f"there is no {place}")
        return connection.EXIT_FAILED
    story = sorted(_lines_with(arguments.id, place), key=lambda line: str(line["timestamp"]))
    if not story:
        connection.complain(f"no line in {place} has {arguments.id}")
        return connection.EXIT_FAILED
    print("\n".join(map(_as_json, story) if arguments.json else told(story)))
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood log", description="All lines about one request, in order.")
    parser.add_argument("id", metavar="ID", help="a request's (x-request-id of the reply) or a trace's")
    parser.add_argument(
        "place",
        nargs="?",
        default=local_logs(connection.DEFAULT_PORT),
        metavar="FOLDER|FILE",
        help=f"of logs; by default those of this machine's server on port {connection.DEFAULT_PORT}",
    )
    parser.add_argument("--json", action="store_true", help="the lines as they are")
    return parser.parse_args(argv)


def _lines_with(identity: str, place: Path) -> Iterator[dict[str, Any]]:
    sought = identity.encode(errors="replace")
    with closing(LogReader(place)) as reader:
        for lines in reader.read():
            for line in lines:
                if sought in line and (fields := _fields(line)) is not None:
                    yield fields


def _fields(line: bytes) -> dict[str, Any] | None:
    """Of a log line; None: it is something else."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return fields if {"event", "service", "timestamp"} <= fields.keys() else None


def _as_json(fields: Mapping[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()


def told(story: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """For people: when it began; then, in seconds since that, who said what."""
    start = _time(story[0])
    yield str(story[0]["timestamp"])
    service_width, event_width = (max(len(str(line[name])) for line in story) for name in ("service", "event"))
    for line in story:
        since_s = (_time(line) - start).total_seconds()
        head = f"{since_s:9.3f}  {line['service']!s:{service_width}}  {line['event']!s:{event_width}}"
        yield "  ".join([head, *_said(line)]).rstrip()


def _said(line: Mapping[str, Any]) -> Iterator[str]:
    """What has a column of its own, or says nothing, is left out."""
    for name, value in line.items():
        if name not in OWN_COLUMNS and value not in (None, "", "info"):
            yield f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"


def _time(line: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(line["timestamp"]))
