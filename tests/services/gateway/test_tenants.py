"""With one tenant's key nothing of another tenant can be read, ended or used up; and no log line tells a secret."""

import asyncio
import json
import logging as stdlib_logging

import pytest
import structlog

from shared import logging
from tests.support.served_gateway import serving

ALICE = {"Authorization": "Bearer sk-alice"}
BOB = {"Authorization": "Bearer sk-bob"}
ROOT = {"Authorization": "Bearer sk-root"}
KEYS = {"api_keys": ("alice: sk-alice", "bob: sk-bob"), "admin_key": "sk-root"}


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, **KEYS) as found:
        yield found


async def generate(served, headers, text="Once", **body):
    return await served.post("/generate", {"text": text, **body}, headers=headers)


async def test_tenants_share_no_namespace_whatever_they_add_to_theirs(served):
    for extra in ({}, {"extra_key": "x"}, {"extra_key": "x", "cache_salt": "y"}):
        for headers in (ALICE, BOB):
            await generate(served, headers, **extra)
    namespaces = [encode.namespace for encode in served.pipeline.encodes]
    alice, bob = set(namespaces[::2]), set(namespaces[1::2])
    assert (len(alice), len(bob)) == (3, 3)
    assert not alice & bob
    forged = await generate(served, ALICE, extra_key=next(iter(bob)))
    assert forged[0] == 200
    assert served.pipeline.encodes[-1].namespace not in bob


async def test_nobody_ends_the_requests_of_others(served):
    served.pipeline.auto = False
    asked = asyncio.create_task(generate(served, ALICE, rid="r1"))
    await served.until(lambda: served.pipeline.runs)
    for headers in (BOB, ROOT):
        assert (await served.post("/abort_request", {"rid": "r1"}, headers=headers))[0] == 200
    assert served.pipeline.runs
    assert not served.pipeline.aborts
    assert (await served.post("/abort_request", {"rid": "r1"}, headers=ALICE))[0] == 200
    assert (await asked)[1]["meta_info"]["finish_reason"]["type"] == "abort"


async def test_stored_responses_are_their_tenants_own(served):
    _, reply, _ = await served.post("/v1/responses", {"input": "Once", "store": True}, headers=ALICE)
    path = f"/v1/responses/{reply['id']}"
    for headers in (BOB, ROOT):
        assert (await served.get(path, headers=headers))[0] == 404
        assert (await served.get(f"{path}/input_items", headers=headers))[0] == 404
        assert (await served.post(f"{path}/cancel", headers=headers))[0] == 404
        async with served.client.delete(path, headers=headers) as response:
            assert response.status == 404
        body = {"input": "more", "previous_response_id": reply["id"]}
        assert (await served.post("/v1/responses", body, headers=headers))[0] in (400, 404)
    assert (await served.get(path, headers=ALICE))[0] == 200


@pytest.mark.parametrize("path", ["/cache", "/server_info", "/metrics", "/flush_cache"])
async def test_what_tells_of_all_is_for_the_admin(served, path):
    for headers, status in ((ALICE, 403), (ROOT, 200)):
        async with served.client.get(path, headers=headers) as response:
            assert response.status == status


async def scrape(served, headers):
    async with served.client.get("/metrics", headers=headers) as response:
        return await response.text()


async def test_the_admin_sees_what_each_tenant_does_and_the_public_does_not(served, tmp_path, tiny_card):
    await generate(served, ALICE)
    await generate(served, BOB, text=3)
    tenant = served.pipeline.encodes[0].namespace
    text = await scrape(served, ROOT)
    assert f'sapwood_tenant_requests_total{{outcome="ok",tenant="{tenant}"}} 1.0' in text
    assert f'sapwood_tenant_tokens_total{{tenant="{tenant}",type="prompt"}} 4.0' in text
    assert f'sapwood_tenant_tokens_total{{tenant="{tenant}",type="completion"}} 4.0' in text
    async with serving(tmp_path, tiny_card, **KEYS, public_metrics=True) as public:
        await generate(public, ALICE)
        assert "sapwood_tenant" not in await scrape(public, {})


# --- log lines -------------------------------------------------------------------------------------------------------

SECRETS = (
    "SECRET-PROMPT",
    "SECRET-KEY",
    "SECRET-HEADER",
    "SECRET-QUERY",
    "SECRET-PATH",
    "SECRET-STOP",
    "SECRET-OUTPUT",
)


def planted_mistake(*_):
    raise RuntimeError("a planted mistake")


@pytest.fixture
async def logged(tmp_path, tiny_card, capfdbinary):
    logging.configure("gateway", level="debug")
    keys = {"api_keys": ("alice: SECRET-KEY-1",), "admin_key": "SECRET-KEY-2"}
    async with serving(tmp_path, tiny_card, pieces=("SECRET-OUTPUT", "x"), **keys) as found:
        yield found, capfdbinary
    structlog.reset_defaults()
    stdlib_logging.captureWarnings(False)


async def test_no_log_line_tells_a_prompt_an_output_or_a_key(logged):
    served, captured = logged
    own = {"Authorization": "Bearer SECRET-KEY-1", "X-Mine": "SECRET-HEADER", "User-Agent": "SECRET-HEADER"}
    wrong = {"Authorization": "Bearer SECRET-KEY-3"}
    chat = {"messages": [{"role": "user", "content": "SECRET-PROMPT"}], "stop": ["SECRET-STOP"]}
    for headers in (own, wrong):
        await generate(served, headers, "SECRET-PROMPT")
        await generate(served, headers, "SECRET-PROMPT", rid="SECRET-PROMPT", extra_key="SECRET-PROMPT")
        await generate(served, headers, ["SECRET-PROMPT"], temperature="SECRET-PROMPT")
        await served.post("/v1/chat/completions", {**chat, "model": "tiny"}, headers=headers)
        await served.post("/v1/chat/completions", {**chat, "model": "SECRET-PROMPT"}, headers=headers)
        await served.post("/v1/chat/completions", data=b'{"SECRET-PROMPT', headers=headers)
        await served.get("/SECRET-PATH?x=SECRET-QUERY", headers=headers)
        await served.get("/cache?limit=SECRET-QUERY", headers=headers)
        async with served.client.post(
            "/generate", json={"text": "SECRET-PROMPT", "stream": True}, headers=headers
        ) as it:
            await it.read()
    served.gateway._dispatcher.open = planted_mistake
    assert (await generate(served, own, "SECRET-PROMPT"))[0] == 500
    logging.drain()
    out, err = captured.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert sum(line["event"] == "request" for line in lines) == 19
    assert any(line["event"] == "internal_error" for line in lines)
    told = [
        (secret, line)
        for line in (*out.splitlines(), *err.splitlines())
        for secret in SECRETS
        if secret in line.decode()
    ]
    assert told == []


async def test_the_line_of_a_refusal_names_the_tenant_once_it_is_known(logged):
    served, captured = logged
    own = {"Authorization": "Bearer SECRET-KEY-1"}
    await generate(served, own)
    await served.get("/server_info", headers=own)
    await served.get("/server_info")
    logging.drain()
    lines = [json.loads(line) for line in captured.readouterr().out.splitlines()]
    tenants = [(line["status"], bool(line["tenant"])) for line in lines if line["event"] == "request"]
    assert tenants == [(200, True), (403, True), (401, False)]
