"""The life of the gateway: start, drain, stop."""

import asyncio
import json
import os
import signal
import socket

import pytest
from structlog.testing import capture_logs

from shared.config import ConfigError, KeyLimits, KeyLimitsConfig
from tests.support.served_gateway import ServedGateway, serving


async def test_a_port_in_use_is_a_clear_error(tmp_path, tiny_card):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        served = ServedGateway(tmp_path, tiny_card, pieces=(), settings={"port": port})
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            await served.gateway.start()


async def test_draining_lets_open_streams_end_and_takes_nothing_new(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as served:
        served.pipeline.auto = False
        asking = asyncio.create_task(served.post("/generate", {"text": "x"}))
        await served.until(lambda: served.pipeline.runs)
        stopping = asyncio.create_task(served.gateway.stop())
        await asyncio.sleep(0)
        status, reply, headers = await served.post("/generate", {"text": "x"})
        assert (status, reply["error"]["code"], headers["Retry-After"]) == (503, "shutting_down", "1")
        assert headers["Connection"] == "close"
        status, reply, headers = await served.get("/ready")
        assert (status, reply, headers["Connection"]) == (503, {"status": "draining"}, "close")
        served.pipeline.emit()
        assert (await asking)[1]["text"] == "Hello, world!"
        await stopping


async def test_a_stream_that_does_not_end_in_time_says_why_in_its_last_event(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, drain_timeout_s=0.05) as served:
        served.pipeline.auto = False
        asking = asyncio.create_task(served.client.post("/v1/completions", json={"prompt": "x", "stream": True}))
        await served.until(lambda: served.pipeline.runs)
        served.pipeline.emit(1)
        response = await asking
        await served.gateway.stop()
        *_, last, rest = (await response.text()).split("\n\n")
        assert (json.loads(last.removeprefix("data: "))["error"]["code"], rest) == ("shutting_down", "")


async def test_what_does_not_end_in_time_is_ended(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, drain_timeout_s=0.05) as served:
        served.pipeline.auto = False
        asking = asyncio.create_task(served.post("/generate", {"text": "x"}))
        await served.until(lambda: served.pipeline.runs)
        await served.gateway.stop()
        status, reply, _ = await asking
        assert (status, reply["error"]["code"]) == (503, "shutting_down")
        await served.until(lambda: served.pipeline.aborts)


async def test_keys_are_read_anew_at_sighup_and_a_bad_file_leaves_the_old_ones(tmp_path, tiny_card):
    path = tmp_path / "keys"
    path.write_text("alice: old", "utf-8")
    async with serving(tmp_path, tiny_card, api_keys_file=str(path)) as served:

        async def after(text):
            """What the log says of the file, and how the old key and the new one fare."""
            path.write_text(text, "utf-8")
            with capture_logs() as lines:
                os.kill(os.getpid(), signal.SIGHUP)
                await served.until(lambda: lines)
            statuses = [(await served.get("/v1/models", headers={"x-api-key": key}))[0] for key in ("old", "new", "")]
            return lines[0]["event"], statuses

        assert await after("alice: old\nalice: new") == ("keys", [200, 200, 401])
        assert await after("alice: new") == ("keys", [401, 200, 401])
        assert await after("what is this") == ("keys_refused", [401, 200, 401])


async def test_limits_of_nobody_are_told_of(tmp_path, tiny_card):
    limits = KeyLimitsConfig(names={"nobody": KeyLimits(requests_per_minute=1)})
    with capture_logs() as lines:
        async with serving(tmp_path, tiny_card, api_keys=("alice: one",), key_limits=limits):
            pass
    assert [line["names"] for line in lines if line["event"] == "limits_of_nobody"] == [["nobody"]]
