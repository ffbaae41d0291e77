"""The runner against a server in memory that answers as /generate does."""

import json

import httpx
import pytest

from scripts.bench.cache.program import Prompt, one_request
from scripts.bench.cache.runner import Runner


def answer(request):
    """Each new token is one more than the last; the first half of the prompt was cached."""
    body = json.loads(request.content)
    prompt, count = body["input_ids"], body["sampling_params"]["max_new_tokens"]
    output = [prompt[-1] + n for n in range(1, count + 1)]
    meta_info = {"id": f"{body['extra_key']}-{prompt[-1]}", "cached_tokens": len(prompt) // 2}
    events = [{"output_ids": output[: n + 1], "meta_info": meta_info} for n in range(count)]
    return httpx.Response(200, text="".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n")


def runner(handler):
    client = httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(handler))
    return Runner(client, "chat", "key")


def two_turns():
    [output] = yield [Prompt([1, 2], 3)]
    yield [Prompt([*output, 10], 1), Prompt([*output, 20], 1)]


async def test_every_request_is_recorded():
    records = await runner(answer).play_all([two_turns(), one_request([30], 2)], concurrency=2)
    assert {record.prompt_ids: record.output_ids for record in records} == {
        (1, 2): (3, 4, 5),
        (3, 4, 5, 10): (11,),
        (3, 4, 5, 20): (21,),
        (30,): (31, 32),
    }
    assert [record.submitted_s for record in records] == sorted(record.submitted_s for record in records)
    assert {record.request_id for record in records} == {"key-2", "key-10", "key-20", "key-30"}
    for record in records:
        assert (record.workload, record.namespace) == ("chat", "key")
        assert record.cached_tokens == len(record.prompt_ids) // 2
        assert 0 < record.ttft_s <= record.total_s


async def test_programs_wait_for_their_turn():
    open_programs, most = set(), 0

    def program(name):
        nonlocal most
        open_programs.add(name)
        most = max(most, len(open_programs))
        yield [Prompt([name], 1)]
        yield [Prompt([name], 1)]
        open_programs.remove(name)

    records = await runner(answer).play_all([program(n) for n in range(5)], concurrency=2)
    assert most == 2
    assert len(records) == 10


def busy(_request):
    return httpx.Response(503, json={"error": {"message": "busy"}})


def breaks(_request):
    return httpx.Response(200, text='data: {"error": {"message": "broken"}}\n\ndata: [DONE]\n\n')


@pytest.mark.parametrize(("handler", "message"), [(busy, "503"), (breaks, "broken")])
async def test_a_request_that_fails_ends_the_run(handler, message):
    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match=message)):
        await runner(handler).play_all([one_request([1], 1)], concurrency=1)
