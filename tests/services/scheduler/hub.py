"""A scheduler core with peers around it, driven by hand: what it sends is kept by peer until it is asked for."""

import random

from services.scheduler.core import Core
from services.scheduler.events import Drop, Event, Note, Send, Tick
from shared import wire
from shared.config import SchedulerConfig
from shared.link import Joined, Left, Received
from tests.simulation.fake_executor import FakeExecutor
from tests.simulation.tokens import expected_output

GATEWAY, DETOKENIZER, EXECUTOR = "gateway", "detokenizer", "executor"
HANG_TIMEOUT_S = 10.0


def plain_prompt(max_new_tokens=4, length=3):
    """One whose output does not end before its limit."""
    for first in range(1000):
        prompt = tuple(range(first, first + length))
        if expected_output(prompt, max_new_tokens, stops_at_string=False)[1] == "length":
            return prompt
    raise AssertionError("the fake model always stops early")


PROMPT = plain_prompt(max_new_tokens=40)


def submit(request_id="r1", attempt=1, gateway=GATEWAY, prompt=(1, 2, 3), max_new_tokens=4, **fields) -> wire.Submit:
    prompt_token_ids = tuple(prompt) if not isinstance(prompt, int) else tuple(range(1000, 1000 + prompt))
    return wire.Submit(
        request_id,
        attempt,
        gateway,
        prompt_token_ids,
        wire.Sampling(seed=0),
        wire.TextOptions(),
        max_new_tokens,
        **fields,
    )


class Hub:
    """`core.check_integrity()` is called after every event."""

    def __init__(self, **config):
        self.now_s = 1000.0
        config = SchedulerConfig(**config)
        self.core = Core(config, hang_timeout_s=HANG_TIMEOUT_S, now_s=self.now_s)
        self.executors: dict[str, FakeExecutor] = {}
        self.sent: dict[str, list] = {}
        self.dropped: list[str] = []
        self.notes: list[Note] = []

    def tell(self, event: Event) -> None:
        for command in self.core.handle(event):
            match command:
                case Send(peer, message):
                    self.sent.setdefault(peer, []).append(message)
                    if peer in self.executors:
                        self.executors[peer].receive(message)
                case Drop(peer):
                    self.dropped.append(peer)
                case Note():
                    self.notes.append(command)
        self.core.check_integrity()

    def hear(self, peer: str, message: wire.Message) -> None:
        self.tell(Received(peer, message))

    def tick(self, seconds: float = 0.1) -> None:
        self.now_s += seconds
        self.tell(Tick(self.now_s))

    def join(self, peer: str, role: wire.Role | None = None, info: wire.ExecutorInfo | None = None) -> None:
        role = role or peer.partition("-")[0]
        self.tell(Joined(peer, wire.Hello(role, wire.PROTOCOL, peer, info)))

    def leave(self, peer: str) -> None:
        self.executors.pop(peer, None)
        self.tell(Left(peer, "gone"))

    def join_executor(
        self, peer=EXECUTOR, capacity_tokens=1000, page_size=1, max_batch=8, draft_tokens=0, forced_tokens=0
    ):
        executor = FakeExecutor(random.Random(0), capacity_tokens=capacity_tokens, page_size=page_size)
        executor.info = wire.ExecutorInfo(
            "fake",
            capacity_tokens,
            page_size,
            max_batch,
            max_model_len=4096,
            draft_tokens=draft_tokens,
            forced_tokens=forced_tokens,
        )
        self.executors[peer] = executor
        self.join(peer, "executor", executor.info)
        self.hear(peer, executor.tree())
        self.hear(peer, wire.Heartbeat(wire.Progress()))
        return executor

    def join_all(self, **executor):
        """One gateway, one detokenizer and one executor."""
        self.join(GATEWAY)
        self.join(DETOKENIZER)
        self.join_executor(**executor)
        return self

    def take(self, peer: str, kind: type = wire.Message) -> list:
        """What the peer has been sent of this kind since it was last asked for."""
        taken = [message for message in self.sent.get(peer, []) if isinstance(message, kind)]
        self.sent[peer] = [message for message in self.sent.get(peer, []) if not isinstance(message, kind)]
        return taken

    def updates(self, detokenizer=DETOKENIZER) -> list[wire.TokenUpdate]:
        return [update for batch in self.take(detokenizer, wire.TokenBatch) for update in batch.updates]

    def preempted(self) -> list[tuple[str, str]]:
        """Who gave way, and why."""
        lines = [note.fields for note in self.notes if note.event == "preempted"]
        return [(line["request_id"], line["reason"]) for line in lines]

    def compile(self, peer=EXECUTOR) -> wire.Compiled:
        """The executor has compiled something."""
        answer = self.executors[peer].grammars.compile()
        assert answer is not None
        self.hear(peer, answer)
        return answer

    def step(self, peer=EXECUTOR) -> wire.StepResult:
        """The executor runs its next plan."""
        result = self.executors[peer].step()
        self.hear(peer, result)
        return result

    def run(self, most_steps=1000) -> None:
        """Until no executor has anything to do."""
        for _ in range(most_steps):
            for peer, executor in list(self.executors.items()):
                while executor.grammars.asked:
                    self.compile(peer)
            ready = [peer for peer, executor in self.executors.items() if executor.can_step()]
            if not ready:
                return
            self.step(ready[0])
            self.tick(0.01)
        raise AssertionError("it goes on and on")
