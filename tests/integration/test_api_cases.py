"""Requests that other servers have got wrong, one by one: `api_cases.json` says what is right."""

import json

import httpx
import jsonschema
import msgspec
import pytest

from services.tokenizer.codec import Codec
from services.tokenizer.encode import Encoder
from shared.config import ModelConfig
from shared.model_card import load_card
from tests.support.api_cases import load_cases, scripts_of
from tests.support.bundled import bundled_folder
from tests.support.deployment import deployed, sse, wait_until

CASES = load_cases()
REFUSED = [case for case in CASES.values() if case.refused is not None]
SCRIPTED = [case for case in CASES.values() if case.outputs]
FLOOD = "schema_unique_flood"
OTHERS = [case for case in CASES.values() if case not in REFUSED + SCRIPTED and case.id != FLOOD]
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def scripts(tokenizer):
    return {case.id: scripts_of(case, tokenizer) for case in SCRIPTED}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory, scripts):
    """Every process as it is, but for the executor, which emits what the cases say."""
    folder = tmp_path_factory.mktemp("scripted")
    card = load_card(ModelConfig())
    encoder = Encoder.of(card, Codec.load(bundled_folder(), card))
    rules = [script.rule(encoder) for each in scripts.values() for script in each]
    (folder / "script.json").write_bytes(msgspec.json.encode(rules))
    settings = {"module": "tests.support.scripted_executor", "script": str(folder / "script.json")}
    changes = [f"--set=executor.{key}={value}" for key, value in settings.items()]
    with deployed(folder / "run", *changes) as deployment:
        yield deployment


def answer(server, path, body):
    reply = server.post(path, body | {"stream": False, "stream_options": None})
    assert reply.status_code == 200, reply.text
    return reply.json()


def events_of(server, path, body):
    with httpx.stream("POST", f"{server.url}{path}", json=body | {"stream": True}, timeout=120) as reply:
        assert reply.status_code == 200, reply.read()
        return list(sse(reply.iter_lines()))


def choices_of(events):
    return [choice for event in events for choice in event["choices"]]


def texts_of(events):
    """The pieces of text, of chat or completion."""
    return [
        choice["delta"].get("content") or "" if "delta" in choice else choice["text"] for choice in choices_of(events)
    ]


def serves(server):
    reply = server.post(CHAT, {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})
    return reply.status_code == 200 and httpx.get(f"{server.url}/health").status_code == 200


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_it_is_refused_in_words_that_name_the_field(server, case):
    for changes in [{}, *case.also]:
        reply = server.post(case.endpoint, case.body() | changes)
        assert reply.status_code == case.refused.status, reply.text
        error = reply.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["param"].startswith(case.refused.param)
        assert case.refused.code in (None, error["code"])
    assert serves(server)


def test_an_over_long_prompt_is_told_the_limit_that_the_model_list_names(server):
    message = server.post("/v1/completions", CASES["prompt_over_context"].body()).json()["error"]["message"]
    limit = httpx.get(f"{server.url}/v1/models").json()["data"][0]["max_model_len"]
    assert str(limit) in message


# --- outputs that a script says --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", SCRIPTED, ids=lambda case: case.id)
def test_what_the_tokens_say_is_what_the_client_gets(scripted, scripts, case):
    for script in scripts[case.id]:
        SCRIPTED_CHECKS[case.id](scripted, script)
    assert serves(scripted)


def is_cut_at_the_stop_string(server, script):
    """Whole and in pieces."""
    [stop] = script.body["stop"]
    before, found, _ = script.text.partition(stop)
    assert found
    choice = answer(server, script.case.endpoint, script.body)["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    assert (text, choice["finish_reason"]) == (before, "stop")
    events = events_of(server, script.case.endpoint, script.body)
    assert "".join(texts_of(events)) == before
    assert choices_of(events)[-1]["finish_reason"] == "stop"


def keeps_markers(server, script):
    whole = answer(server, CHAT, script.body)["choices"][0]
    choices = choices_of(events_of(server, CHAT, script.body))
    content = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert content == (whole["message"]["content"] or "")
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls") or ()]
    arguments = "".join(call["function"].get("arguments", "") for call in calls)
    [expected] = whole["message"].get("tool_calls") or [None]
    assert arguments == (expected["function"]["arguments"] if expected else "")
    assert (expected is not None) == ('"name"' in script.text)
    assert choices[-1]["finish_reason"] == whole["finish_reason"] == ("tool_calls" if expected else "stop")


def never_shows_half_a_character(server, script):
    texts = texts_of(events_of(server, CHAT, script.body))
    assert not any("�" in text for text in texts)
    whole = answer(server, CHAT, script.body)["choices"][0]["message"]["content"]
    assert "".join(texts) == whole == script.text


def ends_in_one_error_frame(server, script):
    with httpx.stream("POST", f"{server.url}{CHAT}", json=script.body) as reply:
        *frames, rest = reply.read().decode().split("\n\n")
    assert rest == ""
    *chunks, last = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    assert "".join(texts_of(chunks))
    assert {choice["finish_reason"] for choice in choices_of(chunks)} == {None}
    assert last["error"].keys() == {"message", "type", "param", "code"}


def is_clamped(server, script):
    choice = answer(server, CHAT, script.body)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (script.text, "stop")


SCRIPTED_CHECKS = {
    "stop_multi_token": is_cut_at_the_stop_string,
    "stop_newlines": is_cut_at_the_stop_string,
    "stop_not_echoed_chat": is_cut_at_the_stop_string,
    "stop_holdback_keeps_markers": keeps_markers,
    "utf8_split_emoji": never_shows_half_a_character,
    "error_in_stream": ends_in_one_error_frame,
    "prompt_plus_max_tokens_over": is_clamped,
}


# --- outputs of the model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: case.id)
def test_it_is_answered_as_it_should_be(server, case):
    CHECKS[case.id](server, case.body())
    assert serves(server)


def has_usage_at_the_end_only(server, body):
    *chunks, last = events_of(server, CHAT, body)
    assert all("usage" in chunk and chunk["usage"] is None for chunk in chunks)
    assert choices_of(chunks)[-1]["finish_reason"] is not None
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] > last["usage"]["completion_tokens"] > 0


def has_no_usage(server, body):
    for chunk in events_of(server, CHAT, body):
        assert chunk.get("usage") is None
        assert chunk["choices"]


def has_usage_throughout(server, body):
    usages = [event["usage"] for event in events_of(server, "/v1/completions", body | {"temperature": 0})]
    counts = [usage["completion_tokens"] for usage in usages]
    assert counts == sorted(counts)
    whole = answer(server, "/v1/completions", body | {"temperature": 0})["usage"]
    assert {key: usages[-1][key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")} == {
        key: whole[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")
    }


def counts_cached_tokens(server, body):
    answer(server, CHAT, body)
    for usage in (events_of(server, CHAT, body)[-1]["usage"], answer(server, CHAT, body)["usage"]):
        assert 0 < usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]


def finishes_once(server, body):
    reasons = [choice["finish_reason"] for choice in choices_of(events_of(server, CHAT, body))]
    assert set(reasons[:-1]) == {None}
    assert reasons[-1] in ("stop", "length")


def says_the_role_once(server, body):
    first, *later = choices_of(events_of(server, CHAT, body | {"n": 2}))
    first_of = {choice["index"]: choice for choice in reversed([first, *later])}
    assert first_of.keys() == {0, 1}
    for choice in [first, *later]:
        assert choice["delta"].get("role") == ("assistant" if choice is first_of[choice["index"]] else None)


def opens_each_call_once(server, body):
    choices = choices_of(events_of(server, CHAT, body | {"temperature": 0, "max_tokens": 200}))
    deltas = [call for choice in choices for call in choice["delta"].get("tool_calls") or ()]
    calls = {}
    for delta in deltas:
        begins = delta["index"] not in calls
        assert ("id" in delta, "type" in delta, "name" in delta["function"]) == (begins, begins, begins)
        calls[delta["index"]] = calls.get(delta["index"], "") + delta["function"].get("arguments", "")
    assert list(calls) == list(range(len(calls)))
    assert len(calls) > 0
    if choices[-1]["finish_reason"] == "tool_calls":
        assert all("city" in json.loads(arguments) for arguments in calls.values())


def ends_in_calls_either_way(server, body):
    body = body | {"temperature": 0, "parallel_tool_calls": False, "max_tokens": 200}
    [whole] = answer(server, CHAT, body)["choices"]
    assert whole["finish_reason"] == "tool_calls"
    assert choices_of(events_of(server, CHAT, body))[-1]["finish_reason"] == "tool_calls"


def scores_without_others(server, body):
    reply = answer(server, CHAT, body)
    entries = reply["choices"][0]["logprobs"]["content"]
    assert len(entries) == reply["usage"]["completion_tokens"]
    for entry in entries:
        assert entry.keys() == {"token", "logprob", "bytes", "top_logprobs"}
        assert entry["top_logprobs"] == []


def scores_the_prompt_alone(server, body):
    reply = answer(server, "/v1/completions", body)
    choice = reply["choices"][0]
    assert choice["text"] == "".join(choice["logprobs"]["tokens"]) == body["prompt"]
    assert choice["logprobs"]["token_logprobs"][0] is None
    assert len(choice["logprobs"]["tokens"]) == reply["usage"]["prompt_tokens"]
    assert reply["usage"]["completion_tokens"] == 0


def keeps_to_the_schema(server, body):
    [choice] = answer(server, CHAT, body)["choices"]
    assert choice["finish_reason"] == "stop"
    jsonschema.validate(json.loads(choice["message"]["content"]), body["response_format"]["json_schema"]["schema"])


def joins_text_parts(server, body):
    texts = [part["text"] for part in body["messages"][-1]["content"]]
    joined = body | {"messages": [*body["messages"][:-1], {"role": "user", "content": "\n".join(texts)}]}
    answer(server, CHAT, body)
    usage = answer(server, CHAT, joined)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1
    sound = body | {"messages": [{"role": "user", "content": [{"type": "sound", "text": "x"}]}]}
    assert server.post(CHAT, sound).json()["error"]["param"].startswith("messages.0.content.0")


def frees_what_a_leaving_client_had(server, body):
    def closed():
        return [line for line in server.lines("request") if line["outcome"] == "client_closed"]

    before = len(closed())
    with httpx.stream("POST", f"{server.url}{CHAT}", json=body, timeout=60) as reply:
        events = sse(reply.iter_lines())
        next(events)
        wait_until(lambda: server.metric("sapwood_running_requests") == 1, 10, "it runs")
    wait_until(lambda: server.metric("sapwood_running_requests") == 0, 10, "nothing runs")
    assert server.metric("sapwood_kv_pinned_tokens") == 0
    assert len(closed()) == before + 1


CHECKS = {
    "usage_only_last_chunk": has_usage_at_the_end_only,
    "usage_absent_without_option": has_no_usage,
    "usage_continuous": has_usage_throughout,
    "usage_cached_tokens_stream": counts_cached_tokens,
    "finish_reason_null_until_end": finishes_once,
    "finish_reason_key_present": finishes_once,
    "role_once": says_the_role_once,
    "tool_delta_index": opens_each_call_once,
    "tool_finish_reason_same_both_modes": ends_in_calls_either_way,
    "logprobs_without_top": scores_without_others,
    "echo_max_tokens_zero": scores_the_prompt_alone,
    "json_schema_enforced": keeps_to_the_schema,
    "multipart_content": joins_text_parts,
    "disconnect_stream": frees_what_a_leaving_client_had,
}


# --- many of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.soak)])
def test_unique_schemas_without_end_are_kept_within_their_budget(tmp_path, count):
    with deployed(tmp_path, "--set=constraints.cache_bytes=20000") as server:
        for number in range(count):
            answer(server, CHAT, CASES[FLOOD].body(UNIQUE=f"unique {number}"))
        assert server.metric("sapwood_constraint_compiled_grammars_total") == count
        assert server.metric("sapwood_constraint_grammars") < 200
        assert server.metric("sapwood_constraint_state_bytes") <= 20_000
