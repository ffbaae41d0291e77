"""Whatever peers say, in whatever order, and true or not: the core does not break, and its state stays consistent."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.scheduler.core import Core
from services.scheduler.events import Drop, Send, Tick
from services.scheduler.ledger import REMEMBER_S
from shared import wire
from shared.config import SchedulerConfig
from shared.constraints import key_of
from shared.link import Joined, Left, Received
from tests.services.scheduler.hub import submit
from tests.simulation.fake_grammars import REFUSAL

GATEWAYS, DETOKENIZERS, EXECUTORS = ("gateway-0", "gateway-1"), ("detokenizer-0", "detokenizer-1"), ("executor-0",)
PEERS = (*GATEWAYS, *DETOKENIZERS, *EXECUTORS)
REQUESTS = ("r0", "r1", "r2", "r3")
ATTEMPTS = st.integers(1, 4)
CONSTRAINTS = (wire.Constraint("regex", "a+"), wire.Constraint("regex", "b+"))


class CoreMachine(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(("fcfs", "lpm")), running=st.integers(1, 3), page_size=st.sampled_from((1, 4)))
    def begin(self, policy, running, page_size):
        config = SchedulerConfig(policy=policy, max_running_requests=running, max_queued_requests=4, max_step_tokens=8)
        self.core = Core(config, hang_timeout_s=5.0, now_s=0.0)
        self.now_s = 0.0
        self.page_size = page_size
        self.plans = []
        self.linked = set()
        self.ended = {}

    def tell(self, event):
        for command in self.core.handle(event):
            match command:
                case Send(peer, message):
                    assert peer in self.linked
                    if isinstance(message, wire.StepPlan):
                        self.plans.append(message)
                    elif isinstance(message, wire.Rejected | wire.Lost):
                        self._end(peer, message)
                case Drop(peer):
                    assert peer in EXECUTORS
                    self.linked.discard(peer)
                    self.plans.clear()

    def _end(self, gateway, message):
        """An attempt is refused or lost once, unless audits ask again or it is long forgotten."""
        key = (gateway, message.request_id, message.attempt, type(message))
        is_known = key in self.ended and self.now_s - self.ended[key] <= REMEMBER_S
        assert isinstance(message, wire.Lost) or not is_known
        self.ended[key] = self.now_s

    @rule(peer=st.sampled_from(PEERS))
    def join(self, peer):
        if peer in self.linked:
            self.leave(peer)
        self.linked.add(peer)
        role = peer.partition("-")[0]
        info = wire.ExecutorInfo("fake", 40, self.page_size, 2, 30, forced_tokens=4) if role == "executor" else None
        self.tell(Joined(peer, wire.Hello(role, wire.PROTOCOL, peer, info)))
        if role == "executor":
            self.tell(Received(peer, wire.Heartbeat(wire.Progress())))

    @rule(peer=st.sampled_from(PEERS))
    def leave(self, peer):
        self.linked.discard(peer)
        if peer in EXECUTORS:
            self.plans.clear()
        self.tell(Left(peer, "gone"))

    @rule(
        request_id=st.sampled_from(REQUESTS),
        gateway=st.sampled_from(GATEWAYS),
        attempt=ATTEMPTS,
        prompt=st.integers(1, 45),
        resumed=st.integers(0, 5),
        priority=st.integers(0, 1),
        deadline=st.sampled_from((None, 2.0)),
        constraint=st.sampled_from((None, *CONSTRAINTS)),
    )
    def submit(self, request_id, gateway, attempt, prompt, resumed, priority, deadline, constraint):
        message = submit(
            request_id,
            attempt,
            gateway,
            prompt,
            max_new_tokens=8,
            resume_token_ids=tuple(range(resumed)),
            priority=priority,
            constraint=constraint,
            time_left_s=deadline,
        )
        self.tell(Received("tokenizer", message))

    @rule(
        peer=st.sampled_from((*GATEWAYS, *DETOKENIZERS)),
        gateway=st.sampled_from(GATEWAYS),
        request_id=st.sampled_from(REQUESTS),
        attempt=ATTEMPTS,
        reason=st.sampled_from(("client", "stop_string", "stale", "deadline", "gateway_gone")),
    )
    def abort(self, peer, gateway, request_id, attempt, reason):
        if peer in self.linked:
            gateway = peer if peer in GATEWAYS else gateway
            self.tell(Received(peer, wire.Abort(request_id, attempt, gateway, reason)))

    @rule(
        gateway=st.sampled_from(GATEWAYS),
        entries=st.lists(
            st.tuples(st.sampled_from(REQUESTS), ATTEMPTS, st.booleans()), max_size=4, unique_by=lambda e: e[0]
        ),
    )
    def audit(self, gateway, entries):
        if gateway in self.linked:
            self.tell(Received(gateway, wire.Audit(tuple(wire.AuditEntry(*entry) for entry in entries))))

    @rule(seconds=st.sampled_from((0.1, 1.0, 6.0, 700.0)))
    def tick(self, seconds):
        self.now_s += seconds
        self.tell(Tick(self.now_s))

    @precondition(lambda self: self.plans)
    @rule(data=st.data())
    def result(self, data):
        """Some answer to the oldest plan, plausible or not."""
        plan = self.plans.pop(0)
        lanes = sorted({s.lane for s in plan.slices} | {a.lane for a in plan.admits} | {data.draw(st.integers(0, 5))})
        outcomes = tuple(data.draw(self._outcome(lane)) for lane in lanes if data.draw(st.booleans()))
        pinned = data.draw(st.integers(0, 40))
        capacity = wire.Capacity(40 - pinned, 0, pinned)
        times = wire.StageTimes(data.draw(st.sampled_from((0.0, 0.01, 3.0))))
        self.tell(Received("executor-0", wire.StepResult(plan.seq, outcomes, capacity, wire.CacheCounters(), times)))

    @rule(constraint=st.sampled_from(CONSTRAINTS), error=st.sampled_from((None, None, REFUSAL)))
    def compiled(self, constraint, error):
        """Whether it was asked for or not."""
        self.tell(Received("executor-0", wire.Compiled(key_of(constraint), error)))

    @rule(seq=st.integers(0, 5))
    def stray_result(self, seq):
        if "executor-0" in self.linked and not any(plan.seq == seq for plan in self.plans):
            capacity = wire.Capacity(40, 0, 0)
            self.tell(
                Received("executor-0", wire.StepResult(seq, (), capacity, wire.CacheCounters(), wire.StageTimes()))
            )

    @staticmethod
    def _outcome(lane):
        return st.builds(
            wire.Outcome,
            lane=st.just(lane),
            computed_tokens=st.integers(0, 45),
            cached_tokens=st.integers(0, 45),
            new_token_ids=st.sampled_from(((), (7,), (7, 8), (7,) * 6)),
            finish_reason=st.sampled_from((None, None, None, "stop", "length", "error")),
            declined=st.booleans(),
            waiting=st.sampled_from((None, None, "grammar")),
        )

    @invariant()
    def is_consistent(self):
        if hasattr(self, "core"):
            self.core.check_integrity()


TestCore = CoreMachine.TestCase
TestCore.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
