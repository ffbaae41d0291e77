import asyncio

import pytest
from structlog.testing import capture_logs

from tests.support.served_gateway import serving
from tests.support.tiny_card import TINY_CARD


@pytest.fixture
async def served(tmp_path):
    """A gateway that listens, before stages that answer "Hello, world!"."""
    with capture_logs():
        async with serving(tmp_path, TINY_CARD) as found:
            yield found


@pytest.fixture
def command(served, capsys):
    """Runs a command's `main` against the gateway: exit code, output, errors."""

    async def run(main, *arguments):
        code = await asyncio.to_thread(main, ["--url", served.url, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
