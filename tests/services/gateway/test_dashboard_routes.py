"""The page is open to all, its lines are the admin's, and they go on as they are written."""

import pytest

from sapwood.dashboard.assets import PAGE, assets
from tests.support.served_gateway import serving

KEYS = {"api_keys": ("alice: sk-alice",), "admin_key": "sk-root"}
ROOT = {"Authorization": "Bearer sk-root"}


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "scheduler-1.jsonl").write_text('{"event":"step"}\nfor people\n')
    return folder


@pytest.fixture
async def served(tmp_path, tiny_card, logs):
    async with serving(tmp_path, tiny_card, logs=str(logs), **KEYS) as found:
        yield found


async def test_the_page_and_its_parts_need_no_key(served):
    async with served.client.get("/dashboard") as response:
        assert (response.status, await response.read()) == (200, assets()[PAGE].body)
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for name, asset in assets().items():
        async with served.client.get(f"/dashboard/assets/{name}") as response:
            assert (response.status, response.headers["Content-Type"]) == (200, asset.content_type)
            assert await response.read() == asset.body


async def test_a_part_that_there_is_not(served):
    assert (await served.get("/dashboard/assets/none.js", headers=ROOT))[0] == 404
    assert (await served.get("/dashboard/assets/..%2fserver.py", headers=ROOT))[0] == 404


@pytest.mark.parametrize(("key", "status"), [(None, 401), ("sk-wrong", 401), ("sk-alice", 403)])
async def test_lines_need_the_admin_key(served, key, status):
    headers = {"x-api-key": key} if key else {}
    assert (await served.get("/dashboard/events", headers=headers))[0] == status


async def test_lines_as_they_are_written(served, logs):
    async with served.client.get("/dashboard/events", headers=ROOT) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        assert await response.content.readuntil(b":\n\n") == b'data: {"event":"step"}\n\n:\n\n'
        (logs / "gateway-1.jsonl").write_text('{"event":"request"}\n')
        assert b'data: {"event":"request"}\n\n' in await response.content.readuntil(b'request"}\n\n')


async def test_a_gateway_that_drains_waits_for_nobody_who_looks(served):
    async with served.client.get("/dashboard/events", headers=ROOT) as response:
        await response.content.readuntil(b":\n\n")
        served.gateway._dispatcher.draining = True
        await response.read()


async def test_without_a_folder_there_is_nothing_to_draw(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as served:
        status, reply, _ = await served.get("/dashboard/events")
        assert (status, reply["error"]["code"]) == (404, "no_logs")
