"""The shipped core between fake peers, on links that delay, reorder between connections, break and lose; no real time.

Everything is drawn from one seed. Messages pass through msgpack as on the wire. A link that breaks takes what is under
way on it along, as a grant that is no longer in force does.
"""

import random
from collections import deque
from dataclasses import dataclass
from typing import get_args

import msgspec

from services.scheduler.core import Core
from services.scheduler.events import Drop, Note, Send, Tick
from shared import wire
from shared.config import Policy, SchedulerConfig
from shared.link import Joined, Left, Received
from tests.simulation.fake_detokenizer import FakeDetokenizer
from tests.simulation.fake_executor import Crashed, FakeExecutor
from tests.simulation.fake_gateway import FakeGateway, OpenRequest
from tests.simulation.fake_grammars import REFUSAL, REFUSED

HUB = "hub"
MOVE_S = 0.005
HANG_TIMEOUT_S = 3.0
CALM_LIMIT_S = 120.0  # every request must end within so long once nothing breaks any more

ENCODER = msgspec.msgpack.Encoder()
TO_HUB = {role: msgspec.msgpack.Decoder(union) for role, union in wire.HUB_ACCEPTS.items()}
FROM_HUB = {
    "gateway": msgspec.msgpack.Decoder(wire.HubToGateway),
    "tokenizer": msgspec.msgpack.Decoder(wire.HubToTokenizer),
    "detokenizer": msgspec.msgpack.Decoder(wire.HubToDetokenizer),
    "executor": msgspec.msgpack.Decoder(wire.HubToExecutor),
}
TO_GATEWAY = msgspec.msgpack.Decoder(wire.TextUpdate)


@dataclass(frozen=True)
class Weather:
    """How rough it gets: chances per move, while it is not calm."""

    requests: int
    arrival: float
    capacity_tokens: int
    page_size: int
    executors: int
    abort: float
    crash: float
    restart: float
    loss: float
    flakiness: float
    deadlines: bool
    constrained: float  # of the requests
    forgetfulness: float  # of executors, which lose grammars
    poison: float = 0.0  # of the requests: they crash the executor that computes them

    @classmethod
    def draw(cls, rng: random.Random) -> "Weather":
        page_size = rng.choice((1, 1, 4))
        return cls(
            requests=rng.randint(4, 20),
            arrival=rng.choice((0.1, 0.5)),
            capacity_tokens=rng.choice((48, 100, 200, 400)) // page_size * page_size,
            page_size=page_size,
            executors=rng.choice((1, 1, 2)),
            abort=rng.choice((0.0, 0.01, 0.03)),
            crash=rng.choice((0.0, 0.0, 0.004, 0.012)),
            restart=rng.choice((0.0, 0.0, 0.003)),
            loss=rng.choice((0.0, 0.0, 0.0, 0.01)),
            flakiness=rng.choice((0.0, 0.0, 0.0, 0.1)),
            deadlines=rng.random() < 0.2,
            constrained=rng.choice((0.0, 0.3, 0.9)),
            forgetfulness=rng.choice((0.0, 0.0, 0.15)),
            poison=rng.choice((0.0, 0.0, 0.2)),
        )


class World:
    def __init__(self, seed: int, core_class: type[Core] = Core, weather: Weather | None = None):
        self.rng = random.Random(seed)
        self.weather = weather or Weather.draw(self.rng)
        self.core_class = core_class
        self.now_s = 1_000_000.0
        self.moves = 0
        self.calm = False
        self.started = 0
        self.gone = 0  # requests whose gateway has died
        self.poisons: dict[tuple[int, ...], int] = {}  # positions, by prompt
        self.deaths = 0  # of poison
        self.crashers: set[tuple[int, ...]] = set()  # the prompts that it was
        self.unlucky: set[tuple[str, str]] = set()  # were alone in hand when an executor went for another reason
        self.tainted: set[tuple[str, str]] = set()  # have been suspects
        self.config = SchedulerConfig(
            policy=self.rng.choice(("lpm", *get_args(Policy))),
            max_step_tokens=self.rng.choice((8, 24, 512)),
            max_running_requests=self.rng.choice((2, 6, 64)),
            max_queued_requests=self.rng.choice((3, 4096, 4096)),
            max_wait_s=self.rng.choice((0.5, 30.0)),
            fair_quantum_tokens=self.rng.choice((8, 4096)),
            balance_requests=self.rng.choice((1, 16)),
        )
        self.channels: dict[tuple[str, str], deque[tuple[int, bytes]]] = {}
        self.links: dict[str, int] = {}  # peers of the hub that are linked, by the number of their link
        self.link_count = 0
        self.away: set[str] = set()  # peers that the hub still takes for linked, wrongly
        self.beat_s = self.audit_s = self.tick_s = self.now_s
        self.executors = {f"executor-{i}": self._executor() for i in range(self.weather.executors)}
        self.detokenizers = {f"detokenizer-{i}": FakeDetokenizer() for i in range(2)}
        self.gateways = {f"gateway-{i}": self._gateway(f"gateway-{i}") for i in range(self.rng.choice((1, 2)))}
        self.tokenizers = ["tokenizer-0", "tokenizer-1"]
        self.heads = [self._ids(self.rng.randint(0, self.rng.choice((16, 40)))) for _ in range(3)]
        self.core = self._new_core()

    def _new_core(self):
        return self.core_class(self.config, hang_timeout_s=HANG_TIMEOUT_S, now_s=self.now_s)

    def _executor(self):
        weather = self.weather
        return FakeExecutor(
            self.rng,
            capacity_tokens=weather.capacity_tokens,
            page_size=weather.page_size,
            flakiness=weather.flakiness,
            forgetfulness=weather.forgetfulness,
            poisons=self.poisons,
        )

    def _gateway(self, name):
        return FakeGateway(name, lambda message: self.post(name, HUB, message), self.weather.capacity_tokens)

    def _ids(self, count):
        return tuple(self.rng.randint(100, 103) for _ in range(count))

    def role(self, peer):
        return peer.partition("-")[0]

    @property
    def peers(self):
        return [*self.executors, *self.detokenizers, *self.gateways, *self.tokenizers]

    # --- the network -------------------------------------------------------------------------------------------------

    def post(self, source, target, message):
        """Onto the link, if there is one."""
        dialler = source if target == HUB else target
        link = 0 if HUB not in (source, target) else self.links.get(dialler)
        if link is None or (not self.calm and self.rng.random() < self.weather.loss):
            return
        self.channels.setdefault((source, target), deque()).append((link, ENCODER.encode(message)))

    def deliver(self, source, target):
        link, payload = self.channels[source, target].popleft()
        if not self.channels[source, target]:
            del self.channels[source, target]
        if target == HUB:
            if self.links.get(source) == link:
                self.tell_core(Received(source, TO_HUB[self.role(source)].decode(payload)))
        elif source != HUB:
            if target in self.gateways:
                self.gateways[target].receive(TO_GATEWAY.decode(payload), self.now_s)
        elif self.links.get(target) == link:
            self.receive(target, FROM_HUB[self.role(target)].decode(payload))

    def receive(self, peer, message):
        if peer in self.executors:
            reply = self.executors[peer].receive(message)
            if reply is not None:
                self.post(peer, HUB, reply)
        elif peer in self.gateways:
            self.gateways[peer].receive(message, self.now_s)
        elif peer in self.detokenizers:
            for out in self.detokenizers[peer].receive(message):
                target, sent = out if isinstance(out, tuple) else (HUB, out)
                self.post(peer, target, sent)

    def tell_core(self, event):
        self.alone = {peer: self.alone_at(peer) for peer in self.core.executors}
        for command in self.core.handle(event):
            match command:
                case Send(peer, message):
                    if isinstance(message, wire.StepPlan):
                        self.check_company(peer, message)
                    self.post(HUB, peer, message)
                case Drop(peer):
                    self.unlucky |= self.alone.get(peer, set())
                    self.unlink(peer)
                    self.away.discard(peer)
                    self.void(peer)
                case Note():
                    pass
        self.moves += 1
        if self.moves % 7 == 0:
            self.core.check_integrity()

    def check_company(self, peer, plan):
        """Suspects run with nobody who was never one: nor may the plan before."""
        view, suspects = self.core.executors[peer], self.core.requests.places.trials.suspects
        self.tainted |= {key for group in suspects for key in group.members}
        flight = next(flight for flight in view.flights if flight.seq == plan.seq)
        sliced = {lane.request.key for lane in flight.lanes}
        in_hand = {request.key for request in view.in_hand()}
        if any(suspects.group(key) for key in sliced):
            assert in_hand <= self.tainted, "a suspect runs with others"

    def alone_at(self, peer):
        in_hand = {request.key for request in self.core.executors[peer].in_hand()}
        return in_hand if len(in_hand) == 1 else set()

    # --- links and lives ---------------------------------------------------------------------------------------------

    def join(self, peer):
        if peer in self.away:
            self.away.discard(peer)
            self.tell_core(Left(peer, "said Hello again"))
        self.link_count += 1
        self.links[peer] = self.link_count
        info = self.executors[peer].info if peer in self.executors else None
        self.tell_core(Joined(peer, wire.Hello(self.role(peer), wire.PROTOCOL, peer, info)))
        self.void(peer)
        if peer in self.executors:
            self.post(peer, HUB, self.executors[peer].tree())
            self.beat(peer)
        if peer in self.gateways:
            self.gateways[peer].joined(self.now_s)

    def void(self, peer):
        """The peer learns that its grant is not in force: what was under way is void."""
        if peer in self.executors:
            self.executors[peer].reset()
        elif peer in self.detokenizers:
            self.detokenizers[peer].reset()
        elif peer in self.gateways:
            self.gateways[peer].linked = False

    def unlink(self, peer):
        self.links.pop(peer, None)

    def break_link(self, peer):
        if peer in self.links:
            if peer in self.core.executors:
                self.unlucky |= self.alone_at(peer)
            self.unlink(peer)
            self.away.add(peer)

    def crash(self, peer):
        """The process is gone with all that it held. Executors and gateways come back under another identity."""
        self.break_link(peer)
        if peer in self.detokenizers:
            self.detokenizers[peer].reset()
            for channel in [channel for channel in self.channels if channel[0] == peer]:
                del self.channels[channel]
        elif peer in self.executors:
            del self.executors[peer]
            self.executors[f"executor-{self.moves}"] = self._executor()
        elif peer in self.gateways:
            self.gone += self.gateways.pop(peer).requests
            name = f"gateway-{self.moves}"
            self.gateways[name] = self._gateway(name)
            for detokenizer in self.detokenizers:
                for abort in self.detokenizers[detokenizer].gateway_left(peer):
                    self.post(detokenizer, HUB, abort)

    def restart_scheduler(self):
        self.links.clear()
        self.away.clear()
        self.core = self._new_core()

    def beat(self, peer):
        executor = self.executors[peer]
        self.post(peer, HUB, wire.Heartbeat(wire.Progress(last_seq=executor.done_seq)))

    # --- time --------------------------------------------------------------------------------------------------------

    def pass_time(self, seconds):
        self.now_s += seconds
        if self.now_s - self.tick_s >= 0.1:
            self.tick_s = self.now_s
            self.tell_core(Tick(self.now_s))
        if self.now_s - self.beat_s >= 0.5:
            self.beat_s = self.now_s
            for peer in self.executors:
                self.beat(peer)
        if self.now_s - self.audit_s >= 1.0:
            self.audit_s = self.now_s
            for gateway in self.gateways.values():
                gateway.audit(self.now_s)

    def move(self):
        """One thing happens."""
        ready = [peer for peer, executor in self.executors.items() if executor.can_step() and peer in self.links]
        unlinked = [peer for peer in self.peers if peer not in self.links]
        busy = list(self.channels)
        choices = [*(("deliver", channel) for channel in busy), *(("step", peer) for peer in ready)]
        choices += [("compile", peer) for peer in self.executors if self.executors[peer].grammars.asked]
        if unlinked and self.rng.random() < (1.0 if self.calm and not choices else 0.1):
            self.join(self.rng.choice(unlinked))
        elif self.away and self.rng.random() < 0.05:
            peer = self.rng.choice(sorted(self.away))
            self.away.discard(peer)
            self.tell_core(Left(peer, "silent"))
        elif choices:
            kind, what = self.rng.choice(choices)
            if kind == "deliver":
                self.deliver(*what)
            elif kind == "step":
                self.step(what)
            elif (answer := self.executors[what].grammars.compile()) is not None:
                self.post(what, HUB, answer)
        self.pass_time(MOVE_S if choices or unlinked else 0.1)

    def step(self, peer):
        try:
            self.post(peer, HUB, self.executors[peer].step())
        except Crashed as crash:
            unlucky = set(self.unlucky)
            self.deaths += 1
            self.crashers.add(crash.args[0])
            self.crash(peer)
            self.unlucky = unlucky

    # --- what befalls it ---------------------------------------------------------------------------------------------

    def disturb(self):
        weather, rng = self.weather, self.rng
        if rng.random() < weather.arrival and self.started < weather.requests:
            self.arrive()
        if rng.random() < weather.abort:
            gateway = rng.choice(list(self.gateways.values()))
            if gateway.open:
                gateway.abort(rng.choice(list(gateway.open)), self.now_s)
        if rng.random() < weather.crash:
            peer = rng.choice([*self.executors, *self.detokenizers])
            self.crash(peer) if rng.random() < 0.7 else self.break_link(peer)
        if rng.random() < weather.crash / 8:
            self.crash(rng.choice(list(self.gateways)))
        if rng.random() < weather.crash / 4:
            self.break_link(rng.choice([*self.gateways, *self.tokenizers]))
        if rng.random() < weather.restart:
            self.restart_scheduler()

    def arrive(self):
        rng = self.rng
        gateway = rng.choice(list(self.gateways.values()))
        self.started += 1
        prompt = rng.choice(self.heads) + self._ids(rng.randint(1, rng.choice((8, 32))))
        request = OpenRequest(
            request_id=f"r{gateway.requests}",
            prompt=prompt,
            max_new_tokens=rng.randint(1, 32),
            priority=rng.choice((0, 0, 0, 1)),
            stops_at_string=rng.random() < 0.4,
            deadline_s=self.now_s + rng.uniform(0.05, 3.0) if self.weather.deadlines and rng.random() < 0.3 else None,
            opened_s=self.now_s,
            constraint=self.constraint(prompt) if rng.random() < self.weather.constrained else None,
            logprobs=rng.random() < 0.3,
        )
        if rng.random() < self.weather.poison:
            self.poisons[prompt] = len(prompt) + rng.randint(-1, 4)
        tokenizer = rng.choice(self.tokenizers)
        gateway.start(request, lambda submit: self.post(tokenizer, HUB, submit), self.now_s)

    def constraint(self, _prompt):
        return wire.Constraint("regex", self.rng.choice(("a+", "b+", "c+", REFUSED)))

    # --- a whole run -------------------------------------------------------------------------------------------------

    def run(self):
        """Rough weather until all requests have arrived and a while longer, then calm until all is done."""
        for peer in self.peers:
            self.join(peer)
        rough = self.rng.randint(50, 400)
        while self.started < self.weather.requests or rough > 0:
            rough -= 1
            self.disturb()
            self.move()
        self.calm = True
        self._until(lambda: not any(gateway.open for gateway in self.gateways.values()), "a request does not end")
        self._until(self._is_clean, "something is left over")
        self._check_endings()
        return self

    def _until(self, done, otherwise):
        start_s = self.now_s
        while not done():
            self.move()
            assert self.now_s - start_s < CALM_LIMIT_S, otherwise

    def _is_clean(self):
        """Nothing leaks: no request, lane, reservation, stream or pin."""
        core = self.core
        return (
            not self.channels
            and not core.requests.ledger.open
            and not [key for key in core.requests.streams.lingering if key[0] in self.gateways]
            and not list(core.requests.places.waiting())
            and all(not view.lanes and not view.flights for view in core.executors.values())
            and all(view.room_tokens == view.capacity_tokens for view in core.executors.values())
            and all(not executor.lanes and not executor.pinned_tokens for executor in self.executors.values())
            and (self.weather.loss or all(not detokenizer.open for detokenizer in self.detokenizers.values()))
        )

    def _check_endings(self):
        allowed = {
            "stop",
            "length",
            "abort",
            "overloaded",
            "context_length_exceeded",
            "deadline_exceeded",
            "deadline_unreachable",
            "poisoned_request",
            REFUSAL.code,
        }
        endings = [ending for gateway in self.gateways.values() for ending in gateway.endings.values()]
        assert len(endings) + self.gone == self.started
        assert set(endings) <= allowed, endings
        for gateway in self.gateways.values():
            for request_id, prompt in gateway.poisoned.items():
                is_innocent = prompt not in self.poisons and (gateway.identity, request_id) not in self.unlucky
                assert not is_innocent, "an innocent one is given up"
