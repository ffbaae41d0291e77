"""The shape of the cache, its readable heads, and emptying it, over HTTP."""

import json

import pytest

from shared import wire
from tests.support.fake_pipeline import tree
from tests.support.served_gateway import serving


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


@pytest.fixture
async def showing(tmp_path, tiny_card):
    """One whose operator allows text."""
    async with serving(tmp_path, tiny_card, show_cached_text=True, tokenizers=2) as found:
        yield found


def heads(reply):
    return {name: [node["head"] for node in body["largest"]] for name, body in reply["executors"].items()}


# --- shape -----------------------------------------------------------------------------------------------------------


async def test_the_trees_are_told_in_sum_and_one_by_one(served):
    status, reply, _ = await served.get("/cache")
    assert status == 200
    executors = reply.pop("executors")
    assert reply == {
        "nodes": 2,
        "namespaces": 4,
        "cheap_namespaces": 6,
        "cached_tokens": 8,
        "pinned_tokens": 10,
        "evictable_tokens": 12,
        "capacity_tokens": 14,
        "hit_tokens": 16,
        "miss_tokens": 18,
        "hit_rate": round(16 / 34, 6),
        "evicted_tokens": 20,
    }
    one = executors["executor-1"]
    assert (one["nodes"], one["capacity_tokens"], one["deepest_tokens"], one["uses"]) == (1, 7, 11, 12)
    assert one["tenants"] == {"": {"cached_tokens": 4, "protected_tokens": 0}}
    assert one["largest"][0] == {
        "namespace": "",
        "depth_tokens": 0,
        "tokens": 100,
        "children": 0,
        "pins": 1,
        "hits": 2,
        "priority": 0,
        "last_used": 5,
    }


async def test_a_cache_that_nothing_was_looked_for_in_has_a_hit_rate_of_zero(served):
    unused = tree() | {"hit_tokens": 0, "miss_tokens": 0}
    served.pipeline.admin_payload["tree"] = {"executors": {"executor-1": unused}}
    assert (await served.get("/cache"))[1]["hit_rate"] == 0


@pytest.mark.parametrize(("query", "shown"), [("", 100), ("?limit=3", 3), ("?limit=1000", 150)])
async def test_so_many_nodes_are_shown(served, query, shown):
    served.pipeline.admin_payload["tree"] = {"executors": {"executor-1": tree(*["x"] * 150)}}
    _, reply, _ = await served.get(f"/cache{query}")
    assert [node["tokens"] for node in reply["executors"]["executor-1"]["largest"]] == [100 - n for n in range(shown)]


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "1.5", "", "9" * 5000])
async def test_a_bad_limit(served, limit):
    status, reply, _ = await served.get(f"/cache?limit={limit}")
    assert (status, reply["error"]["param"]) == (400, "limit")
    assert served.pipeline.admins == []


async def test_an_executor_that_is_lost_meanwhile_is_an_error(served):
    served.pipeline.admin_error = wire.Error("an executor has gone before it answered", "executor_lost", status=503)
    status, reply, _ = await served.get("/cache")
    assert (status, reply["error"]["code"]) == (503, "executor_lost")


# --- text ------------------------------------------------------------------------------------------------------------


async def test_without_leave_of_the_operator_no_text_is_asked_for(served):
    _, reply, _ = await served.get("/cache")
    assert "head" not in reply["executors"]["executor-1"]["largest"][0]
    assert [admin.text for admin in served.pipeline.admins] == [False]
    assert served.pipeline.texts == []


async def test_heads_are_readable_and_each_is_made_once(showing):
    _, reply, _ = await showing.get("/cache")
    assert heads(reply) == {"executor-1": ["You are", "Once"], "executor-2": ["You are"]}
    assert [admin.text for admin in showing.pipeline.admins] == [True]
    assert [text.op for text in showing.pipeline.texts] == ["detokenize"] * 2


async def test_token_ids_are_never_shown(showing):
    _, reply, _ = await showing.get("/cache")
    assert "token_ids" not in json.dumps(reply)


async def test_heads_are_short_and_end_in_a_whole_character(showing):
    ids = tree("x" * 99, "caf\N{REPLACEMENT CHARACTER}")
    showing.pipeline.admin_payload["tree"] = {"executors": {"executor-1": ids}}
    _, reply, _ = await showing.get("/cache")
    assert heads(reply) == {"executor-1": ["x" * 60, "caf"]}


async def test_many_heads(showing):
    several = [f"prefix {number}" for number in range(50)]
    showing.pipeline.admin_payload["tree"] = {"executors": {"executor-1": tree(*several)}}
    _, reply, _ = await showing.get("/cache")
    assert heads(reply) == {"executor-1": several}


async def test_without_tokenizers_the_shape_is_still_told(showing):
    for name in ("tokenizer-1", "tokenizer-2"):
        showing.pipeline.kill(name)
    await showing.until(lambda: showing.gateway.progress().peers["tokenizer"] == 0)
    status, reply, _ = await showing.get("/cache")
    assert (status, heads(reply)) == (200, {"executor-1": [None, None], "executor-2": [None]})


async def test_tokenizers_that_do_not_answer_cost_one_timeout(showing, monkeypatch):
    monkeypatch.setattr("services.gateway.cache_routes.TEXT_TIMEOUT_S", 0.01)
    monkeypatch.setattr("services.gateway.cache_routes.TEXTS_AT_ONCE", 1)
    showing.pipeline.answers_texts = False
    status, reply, _ = await showing.get("/cache")
    assert (status, heads(reply)) == (200, {"executor-1": [None, None], "executor-2": [None]})
    assert len(showing.pipeline.texts) == 1


# --- flush -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["get", "post"])
async def test_flush(served, method):
    status, reply, _ = await getattr(served, method)("/flush_cache?timeout=2")
    assert (status, reply) == (200, {"status": "flushed", "freed_tokens": 7})


@pytest.mark.parametrize("timeout", ["x", "-1", "nan", "1e9"])
async def test_a_bad_timeout(served, timeout):
    status, reply, _ = await served.get(f"/flush_cache?timeout={timeout}")
    assert (status, reply["error"]["param"]) == (400, "timeout")


async def test_a_flush_that_fails_says_why(served):
    served.pipeline.admin_error = wire.Error("requests were running for all of 5 s", "busy", status=503)
    status, reply, _ = await served.post("/flush_cache")
    assert (status, reply["error"]["code"]) == (503, "busy")
