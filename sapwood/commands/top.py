"""`sapwood top`: the counters of a server, live in the terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from sapwood.commands import connection
from sapwood.commands.metrics_text import Snapshot
from sapwood.commands.screen import Span, screen
from sapwood.commands.terminal import paint_for
from sapwood.errors import BackendError

TIMEOUT_S = 10.0
LONGEST_INTERVAL_S = 86_400.0
OUR_PREFIX = "sapwood_"
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # a screen of its own, without a cursor
HOME, END_OF_LINE, REST = "\x1b[H", "\x1b[K", "\x1b[J"


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    options: dict[str, Any] = connection.client_options(arguments)
    try:
        with httpx.Client(**options, timeout=TIMEOUT_S) as client:
            if arguments.once or not sys.stdout.isatty():
                print("\n".join(_lines(Span(Snapshot(), _scrape(client), 0.0), arguments.url)))
            else:
                _follow(client, arguments)
    except httpx.HTTPError as error:
        return connection.unreachable(arguments.url, error, needs="the admin key")
    except BackendError as error:
        return connection.failed(error)
    except KeyboardInterrupt:
        pass
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood top", description="The counters of a server, live.")
    connection.add_arguments(parser)
    parser.add_argument("--once", action="store_true", help="print them once")
    parser.add_argument("--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between two looks (1)")
    return parser.parse_args(argv)


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < LONGEST_INTERVAL_S:
        raise argparse.ArgumentTypeError(f"more than 0 and less than {LONGEST_INTERVAL_S:g}")
    return number


def _scrape(client: httpx.Client) -> Snapshot:
    answer = client.get("/metrics")
    answer.raise_for_status()
    if OUR_PREFIX not in answer.text:
        raise BackendError(f"{answer.url} has no figures of a Sapwood server")
    return Snapshot.of(answer.text)


def _follow(client: httpx.Client, arguments: argparse.Namespace) -> None:
    before, before_s = _scrape(client), time.monotonic()
    with _own_screen():
        while True:
            time.sleep(arguments.interval)
            now, now_s = _scrape(client), time.monotonic()
            lines = _lines(Span(before, now, now_s - before_s), arguments.url)
            sys.stdout.write(HOME + "".join(f"{line}{END_OF_LINE}\n" for line in lines) + REST)
            sys.stdout.flush()
            before, before_s = now, now_s


def _lines(span: Span, url: str) -> list[str]:
    return screen(span, f"sapwood top · {url}", paint_for(sys.stdout))


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    sys.stdout.write(ENTER)
    try:
        yield
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
