"""Whatever is lost, repeated, reordered or killed: each client gets the truth, once, and exactly one ending.

A small world of tokenizers, a scheduler with its executor, and detokenizers, whose messages lie in a bag until
hypothesis delivers, repeats or drops them. The world keeps the rules of the wire (the highest attempt wins, audits are
answered) and nothing else. At the end it stops failing, and then every request must come to its end.

There are two such worlds. Where links are reliable, nothing may need the journal's stall timeout; where they also lose
what goes to and from tokenizers, it must be enough.
"""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.events import (
    ClientGone,
    Deliver,
    EncodedBy,
    Finish,
    HubJoined,
    HubLeft,
    Opened,
    Retrying,
    Tick,
    ToHub,
    TokenizerJoined,
    TokenizerLeft,
    TokenizerReady,
    ToTokenizer,
)
from services.gateway.generation import GenerateRequest
from services.gateway.journal import Journal
from shared import wire

REQUEST = GenerateRequest(sampling=wire.Sampling(seed=1), text=wire.TextOptions(), prompt="p")
PROMPT = (5, 6)
PIECES = ("a", "", "bc", "d", "", "", "efg", "h")  # text of the token at each offset, in a circle


def truth(num_tokens):
    """Token ids and text of an answer."""
    return list(range(num_tokens)), "".join(PIECES[i % len(PIECES)] for i in range(num_tokens))


@dataclass
class Client:
    num_tokens: int
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    endings: list = field(default_factory=list)
    is_gone: bool = False


@dataclass
class Run:
    """An attempt that the scheduler holds."""

    attempt: int
    offset: int
    text_offset: int


class World:
    """`move` does one thing; `choice` decides whatever there is to choose in it."""

    def __init__(self, stall_timeout_s):
        self.journal = Journal("gw", max_attempts=10_000, stall_timeout_s=stall_timeout_s)
        self.now_s = 0.0
        self.clients = {}
        self.tokenizers = {}  # alive: peer to what it has to encode
        self.credits = {}
        self.names = 0
        self.hub = None
        self.runs = {}  # of the present scheduler
        self.highest = {}  # attempt that it has seen, by request
        self.bag = []  # events on their way to the journal
        self.tell(Tick(0.0))
        self.tokenizer_joins(2)
        self.scheduler_joins()

    # --- the journal's commands --------------------------------------------------------------------------------------

    def tell(self, event):
        for command in self.journal.handle(event):
            match command:
                case ToTokenizer(peer, message):
                    if peer in self.tokenizers:
                        self.tokenizers[peer].append(message)
                case ToHub(peer, message):
                    if peer == self.hub:
                        self.at_hub(message)
                case Deliver(request_id, delta):
                    client = self.clients[request_id]
                    assert not client.endings
                    client.token_ids += delta.token_ids
                    client.text += delta.text
                    assert delta.usage.completion_tokens == len(client.token_ids)
                case Finish(request_id, ending):
                    self.clients[request_id].endings.append(ending)
                case Retrying():
                    pass

    # --- the scheduler -----------------------------------------------------------------------------------------------

    def at_hub(self, message):
        match message:
            case wire.Submit(request_id, attempt):
                if attempt > self.highest.get(request_id, 0):
                    self.highest[request_id] = attempt
                    self.runs[request_id] = Run(attempt, len(message.resume_token_ids), message.text_offset)
                    self.bag.append(wire.Accepted(request_id, attempt, message.prompt_token_ids, 100))
            case wire.Abort(request_id, attempt):
                self.highest[request_id] = max(attempt, self.highest.get(request_id, 0))
                if request_id in self.runs and self.runs[request_id].attempt <= attempt:
                    del self.runs[request_id]
            case wire.Audit(entries):
                for entry in entries:
                    if entry.settled and self.runs.get(entry.request_id, Run(0, 0, 0)).attempt < entry.attempt:
                        self.bag.append(wire.Lost(entry.request_id, entry.attempt, "unknown"))

    def emit(self, request_id, num_tokens):
        run, client = self.runs[request_id], self.clients[request_id]
        end = min(run.offset + num_tokens, client.num_tokens)
        token_ids, _ = truth(client.num_tokens)
        text = truth(end)[1][run.text_offset :]
        is_last = end == client.num_tokens
        self.bag.append(
            wire.TextUpdate(
                *(request_id, run.attempt, run.offset, tuple(token_ids[run.offset : end]), run.text_offset, text),
                wire.Counts(2, run.attempt % 2),
                finish_reason="length" if is_last else None,
            )
        )
        run.offset, run.text_offset = end, run.text_offset + len(text)
        if is_last:
            del self.runs[request_id]

    # --- what happens ------------------------------------------------------------------------------------------------

    def move(self, name, choice):
        getattr(self, name)(choice)
        self.check()

    def open(self, choice):
        request_id = f"r{len(self.clients)}"
        self.clients[request_id] = Client(1 + choice % 12)
        self.tell(Opened(request_id, REQUEST, 1e9))

    def client_leaves(self, choice):
        request_id = pick(self.clients, choice)
        if request_id is not None:
            self.clients[request_id].is_gone = True
            self.tell(ClientGone(request_id))

    def tokenizer_joins(self, choice):
        self.names += 1
        peer = f"t{self.names}"
        self.tokenizers[peer] = []
        self.credits[peer] = 1 + choice % 3
        self.tell(TokenizerJoined(peer, peer))
        self.tell(TokenizerReady(peer, self.credits[peer]))

    def tokenizer_dies(self, choice):
        """Perhaps after it has submitted, but before it said Encoded."""
        peer = pick(self.tokenizers, choice)
        if peer is not None:
            work = self.tokenizers.pop(peer)
            if work and choice % 2 and self.hub:
                self.at_hub(submit_of(work[0]))
            self.tell(TokenizerLeft(peer))

    def tokenizer_works(self, choice):
        """Now and then its Submit goes down with the scheduler, and it cannot know."""
        peer = pick([peer for peer, work in self.tokenizers.items() if work], choice)
        if peer is not None:
            message = self.tokenizers[peer].pop(0)
            if self.hub and choice % 5:
                self.at_hub(submit_of(message))
            self.bag.append(EncodedBy(peer, wire.Encoded(message.request_id, message.attempt)))

    def encode_is_lost(self, choice):
        peer = pick([peer for peer, work in self.tokenizers.items() if work], choice)
        if peer is not None:
            self.tokenizers[peer].pop(0)

    def encoded_is_lost(self, choice):
        answer = pick([event for event in self.bag if isinstance(event, EncodedBy)], choice)
        if answer is not None:
            self.bag.remove(answer)

    def scheduler_restarts(self, choice):
        """The old one's messages are void with its grant; its output may still be under way."""
        hub, self.hub = self.hub, None
        self.runs, self.highest = {}, {}
        self.bag = [event for event in self.bag if not isinstance(event, wire.Accepted | wire.Lost)]
        self.tell(HubLeft(hub))
        self.tokenizer_works(choice)
        self.scheduler_joins()

    def scheduler_joins(self):
        self.names += 1
        self.hub = f"hub{self.names}"
        self.tell(HubJoined(self.hub))

    def executor_loses(self, choice):
        request_id = pick(self.runs, choice)
        if request_id is not None:
            self.bag.append(wire.Lost(request_id, self.runs.pop(request_id).attempt, "executor died"))

    def executor_works(self, choice):
        request_id = pick(self.runs, choice)
        if request_id is not None:
            self.emit(request_id, choice % 4)

    def message_arrives(self, choice, *, reach=1):
        if self.bag:
            self.tell(self.bag.pop(choice % min(reach, len(self.bag))))

    def message_overtakes(self, choice):
        self.message_arrives(choice, reach=4)

    def output_is_lost(self, choice):
        """Even where links to peers that live are reliable: a detokenizer may die with what it holds."""
        update = pick([event for event in self.bag if isinstance(event, wire.TextUpdate)], choice)
        if update is not None:
            self.bag.remove(update)

    def output_is_repeated(self, choice):
        update = pick([event for event in self.bag if isinstance(event, wire.TextUpdate)], choice)
        if update is not None:
            self.bag.append(update)

    def time_passes(self, choice):
        self.now_s += (0.1, 0.5, 1.0, 3.0, 25.0)[choice % 5]
        self.tell(Tick(self.now_s))

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check(self):
        for client in self.clients.values():
            token_ids, text = truth(client.num_tokens)
            assert client.token_ids == token_ids[: len(client.token_ids)]
            assert text.startswith(client.text)
            assert len(client.endings) <= 1

    def calm_down(self):
        """Nothing fails any more: so all requests end, soon, and with the whole truth."""
        if not self.tokenizers:
            self.tokenizer_joins(2)
        for _ in range(40 + len(self.clients)):  # a tokenizer of one credit encodes one a second
            self.calm_second()
        for client in self.clients.values():
            (ending,) = client.endings
            if ending.error is None:
                assert (client.token_ids, client.text) == truth(client.num_tokens)
                assert ending.finish_reason == "length"
                assert ending.usage.completion_tokens == client.num_tokens
            else:
                assert client.is_gone
        assert self.journal.open_requests == 0
        self.check_credits()

    def check_credits(self):
        """All are free again, so that so many requests start at once."""
        for _ in range(sum(self.credits[peer] for peer in self.tokenizers)):
            self.open(0)
        assert {peer: len(work) for peer, work in self.tokenizers.items()} == {
            peer: self.credits[peer] for peer in self.tokenizers
        }

    def calm_second(self):
        for peer, work in self.tokenizers.items():
            while work:
                message = work.pop(0)
                self.at_hub(submit_of(message))
                self.bag.append(EncodedBy(peer, wire.Encoded(message.request_id, message.attempt)))
        for request_id in list(self.runs):
            self.emit(request_id, 100)
        while self.bag:
            self.tell(self.bag.pop(0))
        self.now_s += 1.0
        self.tell(Tick(self.now_s))
        self.check()


def pick(among, choice):
    return sorted(among, key=repr)[choice % len(among)] if among else None


def submit_of(message):
    return wire.Submit(
        *(message.request_id, message.attempt, "gw", PROMPT, message.sampling, message.text, 100),
        resume_token_ids=message.resume_token_ids,
        text_offset=message.text_offset,
    )


MOVES = (
    *["open", "tokenizer_works", "executor_works", "message_arrives"] * 3,
    *["executor_works", "message_arrives"] * 4,
    *["message_overtakes", "output_is_lost", "output_is_repeated", "executor_loses", "time_passes"],
    *["client_leaves", "tokenizer_joins", "tokenizer_dies", "scheduler_restarts"],
)
LOSSY_MOVES = (*MOVES, "encode_is_lost", "encoded_is_lost")


def histories(moves):
    return st.lists(st.tuples(st.sampled_from(moves), st.integers(0, 1000)), min_size=50, max_size=250)


def live_through(history, *, stall_timeout_s):
    world = World(stall_timeout_s)
    for name, choice in history:
        world.move(name, choice)
    world.calm_down()


@settings(max_examples=150, deadline=None)
@given(histories(MOVES))
def test_every_client_gets_the_truth_once(history):
    live_through(history, stall_timeout_s=1e9)  # no net below


@settings(max_examples=100, deadline=None)
@given(histories(LOSSY_MOVES))
def test_also_when_messages_to_and_from_tokenizers_are_lost(history):
    live_through(history, stall_timeout_s=10.0)
