"""The page and its lines are the admin's, whom browsers ask for the key, and lines go on as they are written."""

import re
from base64 import b64encode

import pytest

from sapwood.dashboard.assets import PAGE, assets
from services.gateway.middleware import DASHBOARD
from tests.support.served_gateway import serving

KEYS = {"api_keys": ("alice: sk-alice",), "admin_key": "sk-root"}
ROOT = {"Authorization": "Bearer sk-root"}
PATHS = ("/dashboard", "/dashboard/assets/main.js", "/dashboard/assets/none.js", "/dashboard/events")


def basic(credentials):
    return {"Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}


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


async def test_the_page_and_its_parts(served):
    async with served.client.get("/dashboard", headers=basic("anyone:sk-root")) as response:
        assert (response.status, await response.read()) == (200, assets()[PAGE].body)
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for name, asset in assets().items():
        async with served.client.get(f"/dashboard/assets/{name}", headers=ROOT) as response:
            assert (response.status, response.headers["Content-Type"]) == (200, asset.content_type)
            assert await response.read() == asset.body


async def test_a_part_that_there_is_not(served):
    assert (await served.get("/dashboard/assets/none.js", headers=ROOT))[0] == 404
    assert (await served.get("/dashboard/assets/..%2fserver.py", headers=ROOT))[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": "sk-wrong"},
        {"x-api-key": "sk-alice"},
        basic("anyone:sk-wrong"),
        basic("anyone:sk-alice"),
        basic("sk-root"),
        basic("sk-root:"),
        {"Authorization": "Basic"},
        {"Authorization": "Basic sk-root"},
        {"Authorization": "Basic /w=="},
    ],
)
@pytest.mark.parametrize("keys", [KEYS, {"admin_key": "sk-root"}], ids=["keys", "admin key alone"])
async def test_who_has_not_the_admin_key_is_asked_for_it(tmp_path, tiny_card, logs, keys, headers):
    async with serving(tmp_path, tiny_card, logs=str(logs), **keys) as served:
        for path in PATHS:
            status, reply, answered = await served.get(path, headers=headers)
            assert (status, reply["error"]["code"]) == (401, "invalid_api_key"), path
            assert answered["WWW-Authenticate"] == 'Basic realm="Sapwood", charset="UTF-8"'


@pytest.mark.parametrize("headers", [ROOT, {"x-api-key": "sk-root"}, basic("anyone:sk-root"), basic(":sk-root")])
@pytest.mark.parametrize("keys", [KEYS, {"admin_key": "sk-root"}], ids=["keys", "admin key alone"])
async def test_the_admin_key_as_programs_and_as_browsers_give_it(tmp_path, tiny_card, logs, keys, headers):
    async with serving(tmp_path, tiny_card, logs=str(logs), **keys) as served:
        for path, end in (
            ("/dashboard", b"</html>\n"),
            ("/dashboard/assets/icon.svg", b"</svg>"),
            ("/dashboard/events", b":\n\n"),
        ):
            async with served.client.get(path, headers=headers) as response:
                assert (response.status, "WWW-Authenticate" in response.headers) == (200, False)
                assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
                await response.content.readuntil(end)


@pytest.mark.parametrize("key", ["sk-alice:ä", "ä"])
async def test_a_key_with_colons_and_letters_beyond_ascii(tmp_path, tiny_card, key):
    async with serving(tmp_path, tiny_card, admin_key=key) as served:
        response = await served.client.get("/dashboard", headers=basic(f"anyone:{key}"))
        assert (response.status, await response.read()) == (200, assets()[PAGE].body)


async def test_a_password_opens_nothing_else(served):
    """Browsers send it along with what pages of other sites send here, too."""
    paths = {route.resource.canonical for route in served.routes} - {"/health", "/ready"}
    asked = {(method, path) for method in ("GET", "POST", "DELETE") for path in paths}
    for method, path in asked - {("GET", path) for path in DASHBOARD}:
        for password in ("sk-root", "sk-alice"):
            sent = {"headers": basic(f"anyone:{password}"), "json": {"text": "x"}}
            async with served.client.request(method, re.sub("{.*}", "x", path), **sent) as response:
                assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer"), (method, path)


@pytest.mark.parametrize("keys", [KEYS, {"admin_key": "sk-root"}], ids=["keys", "admin key alone"])
async def test_other_routes_for_operators_say_how_they_take_the_key(tmp_path, tiny_card, keys):
    async with serving(tmp_path, tiny_card, **keys) as served:
        _, reply, _ = await served.get("/server_info", headers=basic("anyone:sk-root"))
        assert "Authorization: Bearer KEY, or x-api-key: KEY" in reply["error"]["message"]


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
