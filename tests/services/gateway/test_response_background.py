"""Responses in the background: read while they run, cancelled, failed, and ended with the server."""

import openai
import pytest
from openai.types.responses import Response

from shared import wire
from tests.support.served_gateway import serving


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, drain_timeout_s=0.05) as found:
        found.pipeline.auto = False
        yield found


@pytest.fixture
async def client(served):
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0) as found:
        yield found


@pytest.fixture
async def started(client, served):
    response = await client.responses.create(model="tiny", input="Hi you", background=True)
    await served.until(lambda: served.pipeline.runs)
    return response


def until_it_is(status, response, client, served):
    async def reached():
        return (await client.responses.retrieve(response.id)).status == status

    return served.until(reached)


async def test_from_queued_to_completed(client, served, started):
    assert (started.status, started.background, started.output) == ("queued", True, [])
    assert (await client.responses.retrieve(started.id)).status == "queued"
    served.pipeline.emit(2)
    await until_it_is("in_progress", started, client, served)
    assert (await client.responses.retrieve(started.id)).output_text == "Hello,"
    served.pipeline.emit()
    await until_it_is("completed", started, client, served)
    response = await client.responses.retrieve(started.id)
    assert (response.output_text, response.usage.output_tokens) == ("Hello, world!", 4)
    Response.model_validate_json(response.model_dump_json(by_alias=True, exclude_unset=True), strict=True)


async def test_its_input_can_be_read_at_once(client, started):
    (item,) = (await client.responses.input_items.list(started.id)).data
    assert item.content[0].text == "Hi you"


async def test_cancelling_frees_the_work_and_keeps_what_has_come(client, served, started):
    served.pipeline.emit(2)
    await until_it_is("in_progress", started, client, served)
    response = await client.responses.cancel(started.id)
    assert (response.status, response.output_text) == ("cancelled", "Hello,")
    await served.until(lambda: not served.pipeline.runs)
    assert served.gateway.progress().running == 0
    assert (await client.responses.cancel(started.id)).status == "cancelled"
    assert (await client.responses.retrieve(started.id)).status == "cancelled"


async def test_one_that_has_not_begun_can_be_cancelled(client, served, started):
    assert (await client.responses.cancel(started.id)).status == "cancelled"
    await served.until(lambda: not served.pipeline.runs)


async def test_cancelling_what_is_complete_changes_nothing(client, served, started):
    served.pipeline.emit()
    await until_it_is("completed", started, client, served)
    assert (await client.responses.cancel(started.id)).status == "completed"


async def test_a_response_in_the_foreground_cannot_be_cancelled(client, served):
    served.pipeline.auto = True
    response = await client.responses.create(model="tiny", input="Hi")
    with pytest.raises(openai.BadRequestError, match="background"):
        await client.responses.cancel(response.id)


async def test_deleting_ends_it(client, served, started):
    await client.responses.delete(started.id)
    await served.until(lambda: not served.pipeline.runs)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(started.id)


async def test_what_fails_says_why(client, served, started):
    served.pipeline.finish_error = wire.Error("the matcher broke", "constraint_failed", status=500)
    served.pipeline.emit()
    await until_it_is("failed", started, client, served)
    response = await client.responses.retrieve(started.id)
    assert (response.error.code, response.error.message) == ("server_error", "the matcher broke")
    Response.model_validate_json(response.model_dump_json(by_alias=True, exclude_unset=True), strict=True)


async def test_a_prompt_that_cannot_be_fails_in_the_clients_words(client, served):
    served.pipeline.encode_error = wire.Error("too long", "context_length_exceeded", "prompt")
    started = await client.responses.create(model="tiny", input="Hi", background=True)
    await until_it_is("failed", started, client, served)
    error = (await client.responses.retrieve(started.id)).error
    assert (error.code, error.param) == ("invalid_prompt", "input")


async def test_one_that_runs_cannot_be_gone_on_from(client, started):
    with pytest.raises(openai.BadRequestError, match="has not ended"):
        await client.responses.create(model="tiny", input="More", previous_response_id=started.id)


async def test_it_has_a_log_line_and_figures_of_its_own(client, served, started):
    served.pipeline.emit()
    await until_it_is("completed", started, client, served)
    async with served.client.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    assert 'sapwood_requests_total{outcome="ok",route="background"} 1.0' in lines


async def test_they_end_with_the_server(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, drain_timeout_s=0.05) as served:
        served.pipeline.auto = False
        status, response, _ = await served.post("/v1/responses", {"input": "Hi", "background": True})
        assert (status, response["status"]) == (200, "queued")
        await served.until(lambda: served.pipeline.runs)
    assert served.gateway.progress().running == 0
