"""A browser, and logs that it looks at."""

from __future__ import annotations

import threading

import pytest
import pytest_asyncio

from sapwood.dashboard.server import DashboardServer
from tests.support.chromium import chromium_page, find_chromium
from tests.support.log_maker import write


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(tmp_path_factory):
    async with chromium_page(find_chromium(), tmp_path_factory.mktemp("browser")) as found:
        yield found
        assert found.errors == []


@pytest.fixture
def served_log(tmp_path):
    """Takes lines, returns the address of their dashboard."""
    servers = []

    def serve(lines):
        servers.append(DashboardServer(write(tmp_path / "saved.jsonl", lines), 0))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1].url

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()
