"""The tokenizer on its links, in memory: gateways' fronts, a scheduler's hub."""

import asyncio
import threading

import pytest
import structlog

from services.tokenizer import server
from services.tokenizer.codec import Codec
from services.tokenizer.encode import Encoder
from services.tokenizer.server import INTERNAL, TokenizerService, build
from shared import wire
from shared.config import Config, ConfigError, ModelConfig
from shared.service import Context
from shared.transport import MemoryTransport
from tests.support.bound_peer import CONFIG, BoundPeer, context, link_up
from tests.support.small_tokenizers import byte_level, small_card, write_folder


class Panic(BaseException):
    """What a library in Rust raises when it has lost its head."""


class TrickyCodec(Codec):
    """Some words make it break, panic or wait."""

    def __init__(self, tokenizer, card):
        super().__init__(tokenizer, card)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def encode_prompt(self, text):
        match text:
            case "break":
                raise RuntimeError("a fault of ours")
            case "panic":
                raise Panic
            case "wait":
                self.begun.set()
                self.go_on.wait()
        return super().encode_prompt(text)


@pytest.fixture(autouse=True)
def no_farewell(monkeypatch):
    monkeypatch.setattr(server, "FAREWELL_S", 0)


class Rig:
    def __init__(self):
        self.transport = MemoryTransport()
        self.now_s = 0.0
        self.failures, self.failed = [], asyncio.Event()
        tokenizer = byte_level()
        card = small_card(tokenizer)
        self.codec = TrickyCodec(tokenizer, card)
        rigged = context(self.transport, fail=self.fail)
        self.service = TokenizerService(rigged, Encoder.of(card, self.codec), clock=lambda: self.now_s)
        self.front, self.hub = BoundPeer.front(self.transport), BoundPeer.hub(self.transport)

    def fail(self, reason):
        self.failures.append(reason)
        self.failed.set()

    def encode(self, request_id="r", prompt="the cat", attempt=1):
        self.front.say(wire.Encode(request_id, attempt, wire.Sampling(1), wire.TextOptions(), prompt=prompt))

    async def settle(self):
        """Until all work that is under way is done and told."""
        self.transport.pump()
        await self.service.finish()
        self.transport.pump()


@pytest.fixture
async def rig():
    rig = Rig()
    await rig.service.start()
    await link_up(rig.service, rig.transport)
    assert rig.front.take() == [wire.Ready(CONFIG.tokenizer.credits)]
    yield rig
    await rig.service.stop()


def submitted(rig):
    return [(message.request_id, message.attempt) for message in rig.hub.take()]


async def test_an_encode_becomes_a_submit_and_an_answer(rig):
    rig.encode()
    await rig.settle()
    [submit] = rig.hub.take()
    assert submit.gateway == "gw"
    assert submit.prompt_token_ids == rig.codec.encode_prompt("the cat")
    assert rig.front.take() == [wire.Encoded("r", 1)]
    assert rig.service.progress().last_seq == 1


async def test_encodes_are_done_in_order(rig):
    names = [str(number) for number in range(20)]
    for name in names:
        rig.encode(name, prompt="the " * (20 - int(name)))
    await rig.settle()
    assert submitted(rig) == [(name, 1) for name in names]


async def test_the_log_shows_who_took_the_work(rig):
    with structlog.testing.capture_logs() as lines:
        rig.encode(prompt="wait")
        rig.encode("s")
        rig.transport.pump()
        await asyncio.to_thread(rig.codec.begun.wait, 10)
        rig.now_s += 2.0
        rig.codec.go_on.set()
        await rig.settle()
    named = {"event": "encoded", "log_level": "info", "attempt": 1, "encode_s": 2.0}
    assert [line for line in lines if line["event"] == "encoded"] == [
        {**named, "request_id": "r", "prompt_tokens": 4, "wait_s": 0.0},
        {**named, "request_id": "s", "prompt_tokens": 4, "wait_s": 2.0},
    ]
    assert rig.front.take() == [wire.Encoded("r", 1, 2.0), wire.Encoded("s", 1, 2.0)]


async def test_what_cannot_be_run_is_answered_and_not_submitted(rig):
    rig.encode(prompt="")
    await rig.settle()
    [failed] = rig.front.take()
    assert (failed.request_id, failed.attempt, failed.error.param) == ("r", 1, "prompt")
    assert rig.hub.take() == []


async def test_a_fault_on_one_request_ends_that_one(rig):
    with structlog.testing.capture_logs():
        rig.encode("bad", prompt="break")
        rig.encode("good")
        rig.front.say(wire.Text("c", "count", prompt="break"))
        await rig.settle()
    assert rig.front.take() == [
        wire.EncodeFailed("bad", 1, INTERNAL),
        wire.Encoded("good", 1),
        wire.TextReply("c", error=INTERNAL),
    ]
    assert rig.failures == []


async def test_text_is_converted_on_the_side(rig):
    rig.front.say(wire.Text("c", "count", prompt="the cat"))
    await rig.settle()
    assert rig.front.take() == [wire.TextReply("c", count=4)]


async def test_submits_wait_for_a_hub(rig):
    rig.hub.close()
    rig.encode("a")
    rig.encode("b")
    await rig.settle()
    assert rig.front.take() == []
    assert rig.service.progress().waiting == 2
    rig.hub = BoundPeer.hub(rig.transport)
    await link_up(rig.service, rig.transport)
    assert submitted(rig) == [("a", 1), ("b", 1)]
    assert rig.front.take() == [wire.Encoded("a", 1), wire.Encoded("b", 1)]


async def test_the_work_of_a_gateway_that_left_is_void(rig):
    rig.hub.close()
    rig.encode("waits for a hub")
    await rig.settle()
    rig.encode("waits for its turn")
    rig.transport.pump()
    rig.front.drop()
    await rig.settle()
    assert rig.front.take() == [wire.Ready(CONFIG.tokenizer.credits)]
    progress = rig.service.progress()
    assert (progress.waiting, progress.last_seq) == (0, 1)
    rig.hub = BoundPeer.hub(rig.transport)
    await link_up(rig.service, rig.transport)
    assert rig.hub.take() == []


async def test_what_is_in_hand_when_its_gateway_leaves_is_void(rig):
    rig.encode(prompt="wait")
    rig.transport.pump()
    await asyncio.to_thread(rig.codec.begun.wait)
    rig.front.drop()
    rig.transport.pump()
    rig.codec.go_on.set()
    await rig.settle()
    assert rig.front.take() == [wire.Ready(CONFIG.tokenizer.credits)]
    assert rig.hub.take() == []


async def test_the_loop_stays_alive_and_tells_the_age_of_the_work_in_hand(rig):
    rig.encode(prompt="wait")
    rig.encode()
    rig.transport.pump()
    await asyncio.to_thread(rig.codec.begun.wait)
    rig.now_s += 3.0
    progress = rig.service.progress()
    assert (progress.running, progress.waiting, progress.step_age_s) == (1, 1, 3.0)
    rig.codec.go_on.set()
    await rig.settle()
    progress = rig.service.progress()
    assert (progress.running, progress.waiting, progress.step_age_s, progress.last_seq) == (0, 0, 0.0, 2)


async def test_a_library_that_panics_ends_the_process(rig, monkeypatch):
    monkeypatch.setattr(server, "FINISH_S", 0)
    rig.encode(prompt="panic")
    rig.transport.pump()
    await rig.failed.wait()


async def test_when_stopping_it_asks_for_no_more_and_finishes(rig):
    rig.encode()
    rig.transport.pump()
    stopping = asyncio.create_task(rig.service.stop())
    await stopping
    rig.transport.pump()
    assert rig.front.take() == [wire.Ready(0), wire.Encoded("r", 1)]
    assert submitted(rig) == [("r", 1)]


async def test_a_model_that_is_not_prepared_is_a_configuration_error(tmp_path):
    write_folder(tmp_path / "model", byte_level())
    config = Config(model=ModelConfig(path=str(tmp_path / "model"), cache_dir=str(tmp_path)))
    with pytest.raises(ConfigError, match="no prepared model folder"):
        build(Context(config, "tokenizer-1", "id", MemoryTransport(), print))
