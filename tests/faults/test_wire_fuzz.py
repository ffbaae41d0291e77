"""Whatever frames arrive on a link, nothing dies of them, nothing hangs, and what follows is served.

A thousand frames and more in the ordinary run; 50,000 for each reader with --soak.
"""

import asyncio

import msgspec
import pytest
import zmq

from services.detokenizer.core import Core as DetokenizerCore
from services.detokenizer.server import DetokenizerService
from services.detokenizer.vocabulary import load_vocabulary
from services.executor.kv_pool import make_pool
from services.executor.radix_cache import RadixCache
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner
from services.gateway.dispatch import Dispatcher
from services.gateway.generation import GenerateRequest
from services.scheduler.server import Scheduler
from services.tokenizer.codec import Codec
from services.tokenizer.encode import Encoder
from services.tokenizer.server import TokenizerService
from shared import wire
from shared.config import Config, LinksConfig
from shared.decoding import Malformed, Reader
from shared.invariant import BrokenInvariant
from shared.service import Context
from shared.transport import MemoryTransport, Unreachable
from tests.faults.frames import UNIONS, Frames
from tests.support.bound_peer import BoundPeer
from tests.support.deployment import deployed, wait_until
from tests.support.recording_model import RecordingModel
from tests.support.small_tokenizers import byte_level, small_card, write_folder

EVERY_UNION = [union for unions in UNIONS.values() for union in unions.values()]
FEW, MANY = 1000, 50_000
COUNTS = [FEW, pytest.param(MANY, marks=pytest.mark.soak)]
HI = {"text": "Hi", "sampling_params": {"max_new_tokens": 4}}
CONFIG = Config(links=LinksConfig(front="mem://front", hub="mem://hub"))


@pytest.mark.parametrize("count", COUNTS)
def test_every_frame_is_a_message_or_malformed(count):
    frames = Frames(1)
    readers = [Reader(union) for union in EVERY_UNION]
    good = 0
    for _ in range(count):
        payload = frames.payload(frames.random.choice(EVERY_UNION))
        for reader in readers:
            try:
                reader.read(payload)
                good += 1
            except Malformed:
                continue
    assert good > count // 3, "hardly anything gets past the reader, so nothing behind it is tried"


class Rogue:
    """Dials a bound side as one of its roles and says what it should not; says Hello whenever it has no grant."""

    def __init__(self, transport, endpoint, role, frames):
        self._transport, self._role, self._frames = transport, role, frames
        self._grant = b""
        self._socket = transport.dial(endpoint, role.encode(), self._hear, to="scheduler")
        self._union = UNIONS[endpoint.removeprefix("mem://")][role]

    def _hear(self, heard):
        match msgspec.msgpack.decode(heard[0]):
            case ["Welcome", grant, *_]:
                self._grant = grant.to_bytes(8, "big")
            case ["Reset"]:
                self._grant = b""

    def speak(self):
        if not self._grant:
            info = wire.ExecutorInfo("fuzz", 300, 1, 8, 200) if self._role == "executor" else None
            self._send([b"", msgspec.msgpack.encode(wire.Hello(self._role, wire.PROTOCOL, self._role, info))])
        elif self._frames.random.random() < 0.02:
            self._send(self._frames.random.choice(([], [b""], [b"", b"\xc1"], [b"x" * 8, b""], [b"1"] * 9)))
        else:
            self._send([self._grant, self._frames.payload(self._union)])

    def _send(self, parts):
        try:
            self._socket.send(parts)
        except Unreachable:
            self._grant = b""


class Fake:
    """The bound side of a link in the hands of a rogue: it welcomes whoever dials, and then says anything."""

    def __init__(self, transport, endpoint, union, frames):
        self._frames, self._union = frames, union
        self._routes = {}
        self._socket = transport.bind(endpoint, self._hear)
        self._grants = 0

    def _hear(self, route, parts, _role):
        if parts[0] == b"":
            self._grants += 1
            self._socket.send(route, [msgspec.msgpack.encode(wire.Welcome(self._grants, "gw"))])
        self._routes[route] = None

    def speak(self):
        for route in self._routes:
            self._socket.send(route, [self._frames.payload(self._union)])


def assert_only_refused(failures):
    """A `Refused` ends the process that hears it: that is what it is for."""
    assert [reason for reason in failures if not reason.startswith("refused by the ")] == []


async def torment(service, transport, rogues, clock, frames, count):
    """Let the rogues speak in any order while time passes."""
    for number in range(count):
        frames.random.choice(rogues).speak()
        if number % 5 == 0:
            transport.pump()
        if number % 50 == 0:
            clock.now_s += 0.3
            service.tick()
            transport.pump()
            await asyncio.sleep(0)
    transport.pump()


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.mark.parametrize("count", COUNTS)
async def test_the_scheduler(count):
    transport, clock, frames, failures = MemoryTransport(), Clock(), Frames(2), []
    context = Context(CONFIG, "scheduler", "hub", transport, failures.append)
    scheduler = Scheduler(context, clock=clock)
    await scheduler.start()
    gateways = [Rogue(transport, "mem://hub", role, frames) for role in wire.HUB_ACCEPTS]
    for _ in range(count // 50):
        await torment(scheduler, transport, gateways, clock, frames, 50)
        scheduler.core.check_integrity()
    assert failures == []


@pytest.mark.parametrize("count", COUNTS)
async def test_the_gateway(count):
    transport, clock, frames, failures = MemoryTransport(), Clock(), Frames(3), []
    gateway = Dispatcher(Context(CONFIG, "gateway", "gw", transport, failures.append), clock=clock)
    rogues = [Rogue(transport, "mem://front", role, frames) for role in wire.FRONT_ACCEPTS]
    rogues.append(Fake(transport, "mem://hub", wire.HubToGateway, frames))
    await gateway.refresh()
    request = GenerateRequest(sampling=wire.Sampling(seed=0), text=wire.TextOptions(), prompt="Hi")
    for _ in range(count // 50):
        for request_id in ("r1", "r2", "r3"):
            if request_id not in gateway._readers:
                gateway.open(request_id, [request])
        await torment(gateway, transport, rogues, clock, frames, 50)
    gateway.end_all()
    assert gateway.open_requests == 0
    assert_only_refused(failures)


async def test_a_tokenizer_may_be_called_as_the_scheduler_is():
    transport, clock, frames, failures = MemoryTransport(), Clock(), Frames(7), []
    gateway = Dispatcher(Context(CONFIG, "gateway", "gw", transport, failures.append), clock=clock)
    hub = BoundPeer.hub(transport)
    transport.dial("mem://front", b"hub", lambda frames: None, to="gateway").send(
        [b"", msgspec.msgpack.encode(wire.Hello("tokenizer", wire.PROTOCOL, "tokenizer-1"))]
    )
    await gateway.refresh()
    await torment(gateway, transport, [Rogue(transport, "mem://front", "detokenizer", frames)], clock, frames, 1)
    assert gateway.stages.counts()["scheduler"] == gateway.stages.counts()["tokenizer"] == 1
    hub.drop()
    transport.unplug(b"hub")
    for _ in range(30):
        await torment(gateway, transport, [Rogue(transport, "mem://front", "detokenizer", frames)], clock, frames, 1)
    assert gateway.stages.counts()["tokenizer"] == 0
    assert failures == []


def replica(role, fail, transport, folder):
    context = Context(CONFIG, role, role, transport, fail)
    tokenizer = byte_level()
    if role == "detokenizer":
        return DetokenizerService(context, DetokenizerCore(load_vocabulary(write_folder(folder, tokenizer))))
    card = small_card(tokenizer)
    return TokenizerService(context, Encoder.of(card, Codec(tokenizer, card)))


@pytest.mark.parametrize("role", ["tokenizer", "detokenizer"])
@pytest.mark.parametrize("count", COUNTS)
async def test_replicas(role, count, tmp_path):
    transport, clock, frames, failures = MemoryTransport(), Clock(), Frames(4), []
    service = replica(role, failures.append, transport, tmp_path)
    unions = UNIONS[f"to {role}"]
    rogues = [
        Fake(transport, "mem://front", unions["gateway"], frames),
        Fake(transport, "mem://hub", unions["scheduler"], frames),
    ]
    await service.start()
    await service.refresh()
    for _ in range(count // 50):
        await torment(service, transport, rogues, clock, frames, 50)
        if role == "tokenizer":
            await asyncio.wait_for(service.finish(), 10)
    await service.stop()
    assert_only_refused(failures)


def make_runner():
    model, slots = RecordingModel(), SlotAllocator(200)
    pool = make_pool(model.shape, 200, device=model.device, dtype=model.dtype)
    return StepRunner(model, pool, slots, RadixCache(slots), eos_token_ids=(), max_model_len=100)


@pytest.mark.parametrize("count", [FEW // 5, pytest.param(MANY // 5, marks=pytest.mark.soak)])
def test_the_steps_of_an_executor(count):
    """Its scheduler has proved who it is; a lane given away twice is a broken invariant, all else is run."""
    frames, runner, steps = Frames(6), make_runner(), 0
    for _ in range(count):
        try:
            runner.run(frames.value(wire.StepPlan))
            runner.cancel(frames.value(wire.Cancel).lanes)
            steps += 1
        except BrokenInvariant as error:
            if "is admitted again before its release" not in str(error):
                raise
            runner = make_runner()
    assert steps > count // 2


@pytest.mark.soak
@pytest.mark.integration
def test_a_deployment(tmp_path):
    """A process of this user dials the sockets of one that runs, in every role; executors' answers come from the real
    one alone, so that there is something to be served."""
    roles = {"front": ("tokenizer", "detokenizer"), "hub": ("gateway", "tokenizer", "detokenizer")}
    hub = UNIONS["hub"] | {"gateway": wire.Heartbeat | wire.Submit | wire.Abort | wire.Audit}  # Admin may say drain
    unions = {"front": UNIONS["front"], "hub": hub}
    with deployed(tmp_path / "run") as deployment, zmq.Context() as sockets:
        rogues = [
            LiveRogue(sockets, f"ipc://{deployment.run_dir}/{endpoint}.sock", unions[endpoint], role, Frames(5))
            for endpoint, of_endpoint in roles.items()
            for role in of_endpoint
        ]
        for _ in range(MANY // len(rogues)):
            for rogue in rogues:
                rogue.speak()
        for rogue in rogues:
            rogue.close()
        wait_until(lambda: deployment.post("/generate", HI).status_code == 200, 30, "an answer after it all")
        names = [path.stem for path in (deployment.run_dir / "status").glob("*.json")]
        assert {name: deployment.status(name)["restarts"] for name in names} == dict.fromkeys(names, 0)
        assert deployment.lines("link_refused")


class LiveRogue:
    def __init__(self, sockets, endpoint, unions, role, frames):
        self._union, self._role, self._frames = unions[role], role, frames
        self._grant = b""
        self._socket = sockets.socket(zmq.DEALER)
        self._socket.identity = role.encode()
        self._socket.connect(endpoint)
        self._say_hello()

    def close(self):
        self._socket.close(linger=0)

    def speak(self):
        self._listen()
        if self._frames.random.random() < 0.01:
            self._say_hello()
        parts = [self._grant, self._frames.payload(self._union)]
        self._socket.send_multipart(self._frames.random.choice((parts, parts, parts, parts[1:], [*parts, b""])))

    def _say_hello(self):
        self._socket.send_multipart([b"", msgspec.msgpack.encode(wire.Hello(self._role, wire.PROTOCOL, self._role))])

    def _listen(self):
        while self._socket.poll(0):
            match msgspec.msgpack.decode(self._socket.recv()):
                case ["Welcome", grant, *_]:
                    self._grant = grant.to_bytes(8, "big")
