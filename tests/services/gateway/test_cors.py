"""Which pages may use the server, and what browsers are told."""

import pytest

from services.gateway.cors import Origins
from shared.config import ConfigError, GatewayConfig
from tests.support.served_gateway import serving

LOCAL = ["http://localhost", "http://localhost:3000", "https://127.0.0.1:8443", "http://[::1]:5173"]
FOREIGN = [
    *("https://example.com", "http://localhost.example.com", "http://127.0.0.1.nip.io", "http://localhost@evil.com"),
    *("null", "", "localhost", "file://", "ftp://localhost", "http://localhost:x", "http://localhost/path", "http://["),
]
STAINLESS = "authorization,content-type,x-stainless-lang,x-stainless-retry-count"


def origins(listed=None, *, needs_key=False):
    return Origins.of(GatewayConfig(cors_origins=listed), needs_key=needs_key)


@pytest.mark.parametrize("origin", LOCAL)
def test_without_keys_pages_of_this_machine_may(origin):
    assert origins().allow(origin)


@pytest.mark.parametrize("origin", FOREIGN)
def test_without_keys_no_others_may(origin):
    assert not origins().allow(origin)


@pytest.mark.parametrize("origin", ["https://example.com", "null", "http://localhost"])
def test_with_keys_all_may_and_so_with_a_star(origin):
    assert origins(needs_key=True).allow(origin)
    assert origins(("*",)).allow(origin)


def test_a_list_is_the_whole_list():
    listed = origins(("https://example.com", "http://app.test:8080"), needs_key=True)
    assert listed.allow("https://example.com")
    assert listed.allow("http://app.test:8080")
    for other in ("https://example.com:444", "http://example.com", "https://a.example.com", "http://localhost", "null"):
        assert not listed.allow(other)
    assert not origins(()).allow("http://localhost")


@pytest.mark.parametrize(
    "wrong", ["example.com", "https://example.com/", "https://*.example.com/x", "null", "", "http://"]
)
def test_what_is_no_origin_is_refused_at_the_start(wrong):
    with pytest.raises(ConfigError, match="cors_origins"):
        origins((wrong,))


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:3000"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://rebound.example:30000"}, False),
    ],
)
def test_requests_without_an_origin(headers, admitted):
    assert origins().admit(headers) is admitted


# --- over HTTP -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def closed(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1",)) as found:
        yield found


@pytest.fixture
async def open_(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


async def test_a_preflight_needs_no_key_and_is_granted_what_it_asks_for(closed):
    headers = {
        "Origin": "https://app.example.com",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": STAINLESS,
        "Access-Control-Request-Private-Network": "true",
    }
    async with closed.client.options("/v1/chat/completions", headers=headers) as response:
        assert response.status == 204
        assert await response.read() == b""
        assert response.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
        assert response.headers["Access-Control-Allow-Headers"] == STAINLESS
        assert "POST" in response.headers["Access-Control-Allow-Methods"]
        assert response.headers["Access-Control-Allow-Private-Network"] == "true"
        assert response.headers["Access-Control-Max-Age"] == "7200"
        assert "Origin" in response.headers["Vary"]


async def test_a_preflight_from_elsewhere_is_refused(open_):
    headers = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
    async with open_.client.options("/generate", headers=headers) as response:
        assert response.status == 403
        assert "Access-Control-Allow-Origin" not in response.headers


async def test_options_without_a_preflight_is_a_method_like_others(open_):
    async with open_.client.options("/generate") as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("origin", ["https://example.com", "null"])
async def test_a_foreign_page_generates_nothing(open_, content_type, origin):
    headers = {"Origin": origin, "Content-Type": content_type}
    status, reply, _ = await open_.post("/generate", data=b'{"text": "x"}', headers=headers)
    assert (status, reply["error"]["type"], reply["error"]["code"]) == (403, "permission_error", "origin")
    assert open_.pipeline.encodes == []


async def test_a_foreign_image_does_not_empty_the_cache(open_):
    status, _, _ = await open_.get("/flush_cache", headers={"Sec-Fetch-Site": "cross-site"})
    assert status == 403
    assert open_.pipeline.admins == []


async def test_replies_errors_and_streams_can_be_read_by_the_page(closed):
    headers = {"Origin": "https://app.example.com", "Authorization": "Bearer sk-1"}
    bodies = [(200, {"text": "x"}), (200, {"text": "x", "stream": True}), (400, {"text": 3})]
    for expected, body in bodies:
        async with closed.client.post("/generate", json=body, headers=headers) as response:
            assert response.status == expected
            assert response.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
            assert "x-request-id" in response.headers["Access-Control-Expose-Headers"]
    status, _, found = await closed.get("/v1/models", headers={"Origin": "https://app.example.com"})
    assert (status, found["Access-Control-Allow-Origin"]) == (401, "https://app.example.com")


async def test_programs_are_told_nothing_of_origins(open_):
    _, _, headers = await open_.get("/v1/models")
    assert "Access-Control-Allow-Origin" not in headers
