"""The detokenizer on its links, in memory: a scheduler's hub, a gateway's front."""

import pytest

from services.detokenizer.core import Core
from services.detokenizer.server import DetokenizerService, build
from services.detokenizer.vocabulary import load_vocabulary
from shared import wire
from shared.config import Config, ConfigError, ModelConfig
from shared.service import Context
from shared.transport import MemoryTransport
from tests.support.bound_peer import BoundPeer, context, link_up
from tests.support.small_tokenizers import byte_level, write_folder

COUNTS = wire.Counts(4, 0)


class Rig:
    def __init__(self, folder):
        self.transport = MemoryTransport()
        self.tokenizer = byte_level()
        self.failures = []
        core = Core(load_vocabulary(write_folder(folder, self.tokenizer)))
        self.service = DetokenizerService(context(self.transport, fail=self.failures.append), core)
        self.front, self.hub = BoundPeer.front(self.transport), BoundPeer.hub(self.transport)

    def open(self, request_id="r", attempt=1, stop=(), gateway="gw"):
        self.hub.say(wire.Open(request_id, attempt, gateway, wire.TextOptions(stop=stop)))

    def tokens(self, *updates):
        self.hub.say(wire.TokenBatch(updates))
        self.transport.pump()

    def update(self, text, offset=0, request_id="r", attempt=1, gateway="gw", **rest):
        ids = tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)
        return wire.TokenUpdate(gateway, request_id, attempt, offset, ids, COUNTS, **rest)


@pytest.fixture
async def rig(tmp_path):
    rig = Rig(tmp_path)
    await rig.service.start()
    await link_up(rig.service, rig.transport)
    yield rig
    await rig.service.stop()


async def test_it_dials_both_and_says_who_is_there(rig):
    assert rig.front.joined == rig.hub.joined == ["replica"]
    assert rig.service.progress().peers == {"gateway": 1, "scheduler": 1}


async def test_one_batch_of_tokens_is_one_batch_of_texts(rig):
    rig.open("a")
    rig.open("b")
    rig.tokens(rig.update("Hi", request_id="a"), rig.update("the", request_id="b", finish_reason="length"))
    [batch] = rig.front.take()
    assert [(u.request_id, u.text, u.finish_reason) for u in batch.updates] == [
        ("a", "Hi", None),
        ("b", "the", "length"),
    ]
    progress = rig.service.progress()
    assert (progress.last_seq, progress.running) == (1, 1)


async def test_a_stop_string_is_told_to_both_sides(rig):
    rig.open(stop=("end",))
    rig.tokens(rig.update("the end of"))
    [batch] = rig.front.take()
    assert batch.updates[0].text == "the "
    assert batch.updates[0].finish_reason == "stop"
    assert rig.hub.take() == [wire.Abort("r", 1, "gw", "stop_string")]


async def test_a_gateway_that_is_not_linked_is_answered_by_the_scheduler(rig):
    rig.open(gateway="elsewhere")
    rig.transport.pump()
    assert rig.hub.take() == [wire.Abort("r", 1, "elsewhere", "gateway_gone")]


async def test_what_was_open_for_a_gateway_that_left_is_void(rig):
    rig.open()
    rig.transport.pump()
    rig.front.drop()
    rig.transport.pump()
    assert rig.hub.take() == [wire.Abort("r", 1, "gw", "gateway_gone")]
    await link_up(rig.service, rig.transport)
    rig.open(attempt=2)
    rig.tokens(rig.update("Hi", attempt=2))
    assert rig.front.take()[0].updates[0].text == "Hi"


async def test_a_new_grant_of_the_scheduler_voids_everything(rig):
    rig.open()
    rig.transport.pump()
    rig.hub.drop()
    rig.transport.pump()
    assert rig.service.progress().running == 0
    await link_up(rig.service, rig.transport)
    rig.tokens(rig.update("Hi"))
    assert rig.front.take() == []
    assert rig.hub.take() == [wire.Abort("r", 1, "gw", "stale")]


async def test_a_model_that_is_not_prepared_is_a_configuration_error(tmp_path):
    write_folder(tmp_path / "model", byte_level())
    config = Config(model=ModelConfig(path=str(tmp_path / "model"), cache_dir=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        build(Context(config, "detokenizer-1", "id", MemoryTransport(), print))
