"""The link protocol, over the in-memory transport and over real sockets."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from shared import wire
from shared.link import BoundLink, DialledLink, Joined, Left, Received
from shared.link_keys import load_keys, make_keys
from shared.transport import MemoryTransport, PlainTcpError, Unreachable, ZmqTransport

HUB = "mem://hub"
ABORT = wire.Abort("r1", 1, "gw", "client")


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Pair:
    """A hub and a gateway that dials it."""

    def __init__(self, transport=None, endpoint=HUB, protocol=wire.PROTOCOL, role="gateway"):
        self.transport = transport or MemoryTransport()
        self.endpoint, self.protocol, self.role = endpoint, protocol, role
        self.clock = Clock()
        self.hub_events, self.gateway_events, self.refusals = [], [], []
        self.bind()
        self.dial("gw")

    def bind(self):
        self.hub = BoundLink(
            self.transport,
            self.endpoint,
            wire.HUB_ACCEPTS,
            self.hub_events.append,
            identity="hub",
            clock=self.clock,
        )

    def dial(self, identity):
        self.gateway = DialledLink(
            self.transport,
            self.endpoint,
            wire.HubToGateway,
            self.gateway_events.append,
            to="scheduler",
            identity=identity,
            hello=lambda: wire.Hello(self.role, self.protocol, "gateway"),
            on_refused=self.refusals.append,
            clock=self.clock,
        )

    @property
    def route(self):
        (route,) = self.transport.dialled(HUB)
        return route

    def pass_time(self, seconds, *, hub=True, gateway=True):
        for _ in range(int(seconds / 0.5)):
            self.clock.now_s += 0.5
            if hub:
                self.hub.tick()
            if gateway:
                self.gateway.tick()
            self.transport.pump()

    async def link(self):
        await self.gateway.refresh()
        self.pass_time(1)
        return self

    def without_beats(self, events):
        return [e for e in events if not (isinstance(e, Received) and isinstance(e.message, wire.Heartbeat))]


async def test_hello_and_welcome_join_both_sides():
    pair = await Pair().link()
    assert pair.without_beats(pair.hub_events) == [Joined("gw", wire.Hello("gateway", wire.PROTOCOL, "gateway"))]
    assert pair.without_beats(pair.gateway_events) == [Joined("hub")]
    assert pair.hub.peers("gateway") == ["gw"]
    assert pair.gateway.peers == ["hub"]


async def test_messages_go_both_ways():
    pair = await Pair().link()
    assert pair.gateway.send("hub", ABORT)
    assert pair.hub.send("gw", wire.Lost("r1", 1, "why"))
    pair.transport.pump()
    assert pair.hub_events[-1] == Received("gw", ABORT)
    assert pair.gateway_events[-1] == Received("hub", wire.Lost("r1", 1, "why"))


async def test_sending_to_who_is_not_there_says_so():
    pair = Pair()
    assert not pair.gateway.send("hub", ABORT)
    assert not pair.hub.send("gw", wire.Reset())


async def test_heartbeats_carry_progress_both_ways():
    pair = await Pair().link()
    beats = [e for e in pair.hub_events + pair.gateway_events if isinstance(e, Received)]
    assert {beat.peer for beat in beats} == {"gw", "hub"}
    assert all(isinstance(beat.message.progress, wire.Progress) for beat in beats)


async def test_a_silent_peer_leaves_on_both_sides():
    pair = await Pair().link()
    pair.pass_time(6, gateway=False)
    assert isinstance(pair.without_beats(pair.hub_events)[-1], Left)
    pair = await Pair().link()
    pair.pass_time(6, hub=False)
    assert Left in [type(e) for e in pair.gateway_events]


async def test_after_silence_they_find_each_other_again():
    pair = await Pair().link()
    pair.pass_time(6, gateway=False)
    pair.pass_time(2)
    assert isinstance(pair.without_beats(pair.hub_events)[-1], Joined)
    assert isinstance(pair.without_beats(pair.gateway_events)[-1], Joined)


async def test_a_dead_peer_is_found_at_the_next_send():
    pair = await Pair().link()
    pair.transport.unplug(b"gw")
    assert not pair.hub.send("gw", wire.Lost("r1", 1, ""))
    pair.transport.pump()
    assert isinstance(pair.hub_events[-1], Left)


async def test_a_restarted_bound_side_resets_and_grants_anew():
    pair = await Pair().link()
    pair.hub.close()
    pair.bind()
    assert pair.gateway.send("hub", ABORT)
    assert pair.gateway.send("hub", ABORT)
    pair.transport.pump()
    assert [type(e) for e in pair.without_beats(pair.gateway_events)] == [Joined, Left, Joined]
    assert ABORT not in [getattr(e, "message", None) for e in pair.hub_events]


async def test_a_dialler_that_drops_the_link_joins_afresh():
    pair = await Pair().link()
    pair.gateway.drop("hub", "a gap")
    pair.transport.pump()
    assert [type(e) for e in pair.without_beats(pair.gateway_events)] == [Joined, Left, Joined]
    assert [type(e) for e in pair.without_beats(pair.hub_events)] == [Joined, Left, Joined]


async def test_an_old_grant_is_not_in_force():
    pair = await Pair().link()
    stale = pair.transport.dial(HUB, b"other", lambda frames: None, to="scheduler")
    stale.send([(1).to_bytes(8, "big"), msgspec.msgpack.encode(ABORT)])
    pair.transport.pump()
    assert ABORT not in [getattr(e, "message", None) for e in pair.hub_events]


async def test_another_protocol_is_refused_with_both_versions_named():
    pair = await Pair(protocol=99).link()
    assert "99" in pair.refusals[0]
    assert str(wire.PROTOCOL) in pair.refusals[0]
    assert pair.without_beats(pair.hub_events) == []


async def test_a_role_without_business_here_is_refused():
    pair = await Pair(role="scheduler").link()
    assert "scheduler" in pair.refusals[0]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode(wire.StepResult(1, (), wire.Capacity(0, 0, 0), wire.CacheCounters(), wire.StageTimes())),
    ],
)
async def test_what_the_role_may_not_say_costs_the_link_and_nothing_else(payload):
    pair = await Pair().link()
    grant = (1).to_bytes(8, "big")
    pair.transport.to_router(HUB, pair.route, [grant, payload])
    pair.transport.pump()
    assert [type(e) for e in pair.without_beats(pair.hub_events)] == [Joined, Left, Joined]


@pytest.mark.parametrize("frames", [[], [b"x"], [b"", b"garbage"], [b"1", b"2", b"3"]])
async def test_garbage_frames_do_nothing(frames):
    pair = await Pair().link()
    before = pair.without_beats(pair.hub_events)
    pair.transport.to_router(HUB, pair.route, frames)
    pair.transport.pump()
    assert pair.without_beats(pair.hub_events) == before


# --- who must not get in ---------------------------------------------------------------------------------------------


def rogue(pair, identity, role="gateway", name="rogue"):
    """Says Hello from a socket of its own; returns it and what it hears."""
    heard = []

    def hear(frames):
        heard.extend(msgspec.msgpack.decode(frame, type=wire.HubToGateway) for frame in frames)

    socket = pair.transport.dial(HUB, identity, hear, to="scheduler")
    socket.send([b"", msgspec.msgpack.encode(wire.Hello(role, wire.PROTOCOL, name))])
    pair.transport.pump()
    return socket, heard


async def test_who_knows_a_name_cannot_take_its_place():
    pair = await Pair().link()
    assert rogue(pair, b"gw")[1] == rogue(pair, b"gw/guessed")[1] == []
    assert pair.hub.complaints == 2
    assert pair.hub.send("gw", wire.Lost("r1", 1, "why"))
    pair.transport.pump()
    assert pair.gateway_events[-1] == Received("hub", wire.Lost("r1", 1, "why"))


async def test_a_grant_is_good_on_its_own_route_only():
    pair = await Pair().link()
    pair.transport.dial(HUB, b"gw/guessed", lambda frames: None, to="scheduler").send(
        [(1).to_bytes(8, "big"), msgspec.msgpack.encode(ABORT)]
    )
    pair.transport.pump()
    assert ABORT not in [getattr(e, "message", None) for e in pair.hub_events]


@pytest.mark.parametrize("claimed", ["gateway", "executor", "detokenizer"])
async def test_a_key_that_stands_for_another_role_is_refused(claimed):
    pair = await Pair().link()
    pair.transport.roles[b"x"] = "tokenizer"
    _, heard = rogue(pair, b"x", claimed)
    assert heard == [wire.Refused(f"rogue claims the role of {claimed}, and its key stands for tokenizer")]
    assert pair.hub.peers(claimed) == (["gw"] if claimed == "gateway" else [])


async def test_a_key_lets_in_whom_it_stands_for():
    pair = await Pair().link()
    pair.transport.roles[b"x"] = "tokenizer"
    rogue(pair, b"x", "tokenizer")
    assert pair.hub.peers("tokenizer") == ["x"]


@pytest.mark.parametrize("identity", [b"", b"\x00\x01\x02\x03\x04", b"\xff" * 255, b"a\nb", b"/secret"])
async def test_who_has_no_name_is_not_answered(identity):
    pair = await Pair().link()
    assert rogue(pair, identity)[1] == []
    assert pair.hub.complaints == 1


async def test_ten_thousand_hellos_of_different_names_find_no_room():
    pair = await Pair().link()
    for number in range(10_000):
        rogue(pair, b"%d" % number)
    assert len(pair.hub.peers("gateway")) == 1024
    pair.pass_time(6)
    assert pair.hub.peers("gateway") == ["gw"]


async def test_ten_thousand_hellos_of_one_name_are_a_few():
    pair = await Pair().link()
    socket, _ = rogue(pair, b"x")
    for _ in range(10_000):
        socket.send([b"", msgspec.msgpack.encode(wire.Hello("gateway", wire.PROTOCOL, "rogue"))])
    pair.transport.pump()
    assert sum(isinstance(e, Joined) for e in pair.hub_events) <= 6
    pair.pass_time(1)
    assert pair.hub.complaints > 9_000


async def test_whatever_a_peer_says_reasons_are_fit_for_a_log():
    pair = await Pair().link()
    pair.transport.to_router(HUB, pair.route, [(1).to_bytes(8, "big"), msgspec.msgpack.encode(["a\nb\x1b[2J"])])
    pair.transport.pump()
    (left,) = [e for e in pair.hub_events if isinstance(e, Left)]
    assert left.reason.isprintable()


async def test_a_connection_that_is_never_made_is_tried_anew():
    pair = Pair()
    pair.hub.close()
    await pair.gateway.refresh()
    pair.transport.unplug(b"gw")  # as after a refusal: the library does not dial again
    pair.bind()
    pair.pass_time(9)
    assert pair.gateway.peers == []
    pair.pass_time(3)
    assert pair.gateway.peers == ["hub"]


class AddressBook(MemoryTransport):
    """A name that resolves to whatever the test says."""

    addresses = (HUB,)

    async def resolve(self, endpoint):
        return list(self.addresses)


async def test_addresses_are_dialled_and_hung_up_as_they_come_and_go():
    transport = AddressBook()
    pair = Pair(transport)
    other_events = []
    BoundLink(transport, "mem://two", wire.HUB_ACCEPTS, other_events.append, identity="hub-2", clock=pair.clock)
    await pair.link()
    transport.addresses = (HUB, "mem://two")
    await pair.link()
    assert sorted(pair.gateway.peers) == ["hub", "hub-2"]
    transport.addresses = ("mem://two",)
    await pair.link()
    assert pair.gateway.peers == ["hub-2"]
    transport.addresses = ()
    await pair.link()
    assert pair.gateway.peers == ["hub-2"], "a name that does not resolve for a moment ends nothing"


# --- real sockets ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def zmq_transport():
    transport = ZmqTransport()
    yield transport
    transport.close()


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("scheme", ["ipc", "tcp"])
async def test_over_zeromq(zmq_transport, tmp_path, unused_tcp_port, scheme):
    endpoint = f"ipc://{tmp_path}/s" if scheme == "ipc" else f"tcp://127.0.0.1:{unused_tcp_port}"
    pair = Pair(zmq_transport, endpoint)
    await pair.gateway.refresh()

    def joined():
        pair.clock.now_s += 1
        pair.gateway.tick()
        return any(isinstance(e, Joined) for e in pair.gateway_events)

    await until(joined)
    for number in range(1000):
        assert pair.gateway.send("hub", wire.Abort(f"r{number}", 1, "gw", "client"))
    await until(lambda: len(pair.without_beats(pair.hub_events)) == 1001)
    received = [e.message.request_id for e in pair.without_beats(pair.hub_events)[1:]]
    assert received == [f"r{number}" for number in range(1000)]
    pair.gateway.close()

    def left():
        pair.hub.send("gw", wire.Lost("r1", 1, ""))
        return any(isinstance(e, Left) for e in pair.hub_events)

    await until(left)
    pair.hub.close()


async def test_a_router_does_not_drop_silently(zmq_transport, tmp_path):
    router = zmq_transport.bind(f"ipc://{tmp_path}/s", lambda *_: None)
    with pytest.raises(Unreachable):
        router.send(b"nobody", [b"x"])
    router.close()


async def test_a_socket_that_is_left_open_holds_nobody_up(tmp_path):
    transport = ZmqTransport()
    transport.bind(f"ipc://{tmp_path}/hub", lambda *_: None)
    await asyncio.sleep(0)
    transport.close()


async def test_a_dealer_does_not_queue_for_nobody(zmq_transport, tmp_path):
    dealer = zmq_transport.dial(f"ipc://{tmp_path}/nobody", b"me", lambda frames: None, to="scheduler")
    with pytest.raises(Unreachable, match="it is gone, or has stopped reading"):
        dealer.send([b"x"])
    dealer.close()


@pytest.mark.parametrize("endpoint", ["tcp://0.0.0.0:5571", "tcp://10.0.0.1:5571", "tcp://gateway:5571"])
async def test_plain_tcp_beyond_this_machine_needs_saying(zmq_transport, endpoint):
    with pytest.raises(PlainTcpError, match="allow_plain_tcp"):
        zmq_transport.bind(endpoint, lambda *_: None)
    with pytest.raises(PlainTcpError, match="allow_plain_tcp"):
        zmq_transport.dial(endpoint, b"me", lambda frames: None, to="scheduler")


async def test_ipc_sockets_are_for_this_user_alone(zmq_transport, tmp_path):
    router = zmq_transport.bind(f"ipc://{tmp_path}/s", lambda *_: None)
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0
    router.close()


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def keyed(tmp_path):
    """Makes a transport of a role, with keys."""
    make_keys(tmp_path)
    made = []

    def make(role):
        made.append(ZmqTransport(keys=load_keys(tmp_path, role)))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


class Keyed(Pair):
    """A hub with the scheduler's key; who dials has another transport and key."""

    def __init__(self, hub_transport, dialler_transport, port, role):
        self.dialler_transport = dialler_transport
        super().__init__(hub_transport, f"tcp://127.0.0.1:{port}", role=role)

    def dial(self, identity):
        self.transport, hub_transport = self.dialler_transport, self.transport
        super().dial(identity)
        self.transport = hub_transport

    async def run_until(self, condition):
        await self.gateway.refresh()

        def passed():
            self.clock.now_s += 0.02
            self.gateway.tick()
            self.hub.tick()
            return condition()

        await until(passed)

    def close(self):
        self.gateway.close()
        self.hub.close()


async def test_listed_keys_link_over_tcp(keyed, unused_tcp_port):
    pair = Keyed(keyed("scheduler"), keyed("gateway"), unused_tcp_port, "gateway")
    await pair.run_until(lambda: pair.gateway.peers)
    pair.gateway.send("hub", ABORT)
    await pair.run_until(lambda: ABORT in [getattr(e, "message", None) for e in pair.hub_events])
    pair.close()


async def test_a_key_does_not_let_its_holder_play_another_role(keyed, unused_tcp_port):
    pair = Keyed(keyed("scheduler"), keyed("tokenizer"), unused_tcp_port, "executor")
    await pair.run_until(lambda: pair.refusals)
    assert "its key stands for tokenizer" in pair.refusals[0]
    assert pair.hub_events == []
    pair.close()


async def test_a_key_that_is_not_listed_hears_nothing(keyed, unused_tcp_port, tmp_path):
    hub_transport = keyed("scheduler")
    (tmp_path / "gateway" / "gateway.key_secret").unlink()
    make_keys(tmp_path)  # a new key of the gateway, which the scheduler has not read
    pair = Keyed(hub_transport, keyed("gateway"), unused_tcp_port, "gateway")
    with capture_logs() as lines:
        await pair.run_until(lambda: lines)
    assert "a key that is not listed" in lines[0]["reason"]
    assert (pair.hub_events, pair.gateway_events, pair.refusals) == ([], [], [])
    pair.close()


async def test_no_key_hears_nothing(keyed, zmq_transport, unused_tcp_port):
    pair = Keyed(keyed("scheduler"), zmq_transport, unused_tcp_port, "gateway")
    keyless = pair.gateway
    await keyless.refresh()
    pair.dialler_transport = keyed("gateway")
    pair.dial("keyed")

    def is_linked():
        keyless.tick()
        return pair.gateway.peers

    await pair.run_until(is_linked)
    assert keyless.peers == []
    assert pair.hub.peers("gateway") == ["keyed"]
    keyless.close()
    pair.close()


class Nowhere(MemoryTransport):
    async def resolve(self, endpoint):
        return []


@pytest.mark.parametrize("mistake", ["no keys", "another key of the hub"])
async def test_keys_that_do_not_match_are_told_of_on_both_sides(
    keyed, zmq_transport, unused_tcp_port, tmp_path, mistake
):
    hub_transport, dialler = keyed("scheduler"), zmq_transport
    if mistake != "no keys":
        (tmp_path / "scheduler" / "scheduler.key_secret").unlink()
        make_keys(tmp_path)
        dialler = keyed("gateway")
    pair = Keyed(hub_transport, dialler, unused_tcp_port, "gateway")
    with capture_logs() as lines:
        await pair.run_until(lambda: {line["event"] for line in lines} >= {"link_refused", "link_unanswered"})
    said = {line["event"]: line for line in lines}
    assert said["link_refused"]["peer"] == said["link_unanswered"]["address"] == pair.endpoint
    assert "other keys" in said["link_refused"]["reason"]
    assert "keys_dir" in said["link_unanswered"]["reason"]
    assert pair.hub_events == []
    pair.close()


async def test_an_address_where_nobody_answers_is_told_of():
    clock = Clock()
    link = DialledLink(
        MemoryTransport(),
        HUB,
        wire.Reset,
        print,
        to="scheduler",
        identity="gw",
        hello=lambda: wire.Hello("gateway", wire.PROTOCOL, "gw"),
        clock=clock,
    )
    with capture_logs() as lines:
        for clock.now_s in (0.0, 3.0, 6.0, 9.0):
            await link.refresh()
            link.tick()
    (line,) = lines
    assert (line["event"], line["address"], line["waited_s"]) == ("link_unanswered", HUB, 6.0)
    assert line["reason"].startswith("nobody listens there")


async def test_a_name_without_an_address_is_told_of():
    clock = Clock()
    link = DialledLink(
        Nowhere(), "tcp://none:1", wire.Reset, print, to="scheduler", identity="gw", hello=print, clock=clock
    )
    with capture_logs() as lines:
        for clock.now_s in (0.0, 6.0):
            await link.refresh()
    assert [(line["event"], line["address"], line["reason"]) for line in lines] == [
        ("link_unanswered", "tcp://none:1", "no address is known for this name")
    ]


async def test_with_keys_tcp_may_leave_this_machine(keyed, unused_tcp_port):
    keyed("scheduler").bind(f"tcp://0.0.0.0:{unused_tcp_port}", lambda *_: None).close()


async def test_names_resolve_to_every_address(zmq_transport):
    assert await zmq_transport.resolve("ipc:///x") == ["ipc:///x"]
    assert await zmq_transport.resolve("tcp://127.0.0.1:5") == ["tcp://127.0.0.1:5"]
    assert await zmq_transport.resolve("ipc:///x,tcp://127.0.0.1:5") == ["ipc:///x", "tcp://127.0.0.1:5"]
    assert await zmq_transport.resolve("tcp://no-such-host.invalid:5,ipc:///x") == ["ipc:///x"]
    assert "tcp://127.0.0.1:5" in await zmq_transport.resolve("tcp://localhost:5")
    assert await zmq_transport.resolve("tcp://no-such-host.invalid:5") == []
