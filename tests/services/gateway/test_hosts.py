"""The names that a server without keys answers to."""

import asyncio

import pytest

from services.gateway.hosts import Hosts
from shared.config import GatewayConfig
from tests.support.served_gateway import serving

OURS = ["127.0.0.1", "127.0.0.1:30000", "[::1]:30000", "192.168.1.4:80", "localhost", "LocalHost:30000", "localhost."]
OTHERS = [
    "evil.example",
    "evil.example:30000",
    "localhost.evil.example",
    "127.0.0.1.nip.io",
    "",
    "[::1",
    "a@b@c",
    "x:y",
]


@pytest.mark.parametrize("header", OURS)
def test_addresses_and_localhost_are_ours(header):
    assert Hosts.of(GatewayConfig(), needs_key=False).admit(header)


@pytest.mark.parametrize("header", OTHERS)
def test_other_names_are_not(header):
    assert not Hosts.of(GatewayConfig(), needs_key=False).admit(header)


def test_more_names_can_be_given():
    hosts = Hosts.of(GatewayConfig(host="gpu.lan", allowed_hosts=("Gateway", "api.example.com")), needs_key=False)
    for name in ("gpu.lan", "GATEWAY:30000", "api.example.com", "localhost"):
        assert hosts.admit(name)
    assert not hosts.admit("example.com")
    assert Hosts.of(GatewayConfig(allowed_hosts=("*",)), needs_key=False).admit("evil.example")


@pytest.mark.parametrize("header", OURS + OTHERS)
def test_where_a_key_is_needed_every_name_will_do(header):
    assert Hosts.of(GatewayConfig(), needs_key=True).admit(header)


# --- over HTTP -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def open_(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


@pytest.mark.parametrize("path", ["/generate", "/v1/models", "/health", "/nowhere"])
async def test_a_rebound_page_gets_nothing(open_, path):
    for method in ("get", "post"):
        status, reply, _ = await getattr(open_, method)(path, headers={"Host": "evil.example:30000"})
        assert (status, reply["error"]["code"]) == (421, "unknown_host")
    assert open_.pipeline.encodes == []


async def test_localhost_by_name_is_served(open_):
    status, _, _ = await open_.post("/generate", {"text": "x"}, headers={"Host": f"localhost:{open_.gateway.port}"})
    assert status == 200


@pytest.mark.parametrize(("head", "status"), [("", b"200"), ("Host: localhost\r\nHost: evil.example\r\n", b"4")])
async def test_a_request_without_the_header_and_one_with_two(open_, head, status):
    reader, writer = await asyncio.open_connection("127.0.0.1", open_.gateway.port)
    writer.write(f"GET /v1/models HTTP/1.0\r\n{head}\r\n".encode())
    reply = await reader.read()
    writer.close()
    assert reply.split()[1].startswith(status)
