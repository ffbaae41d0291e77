"""The journal by single events; random faults are in test_journal_faults.py."""

import msgspec
import pytest

from services.gateway.events import (
    ClientGone,
    Deliver,
    EncodedBy,
    EncodeFailedBy,
    Finish,
    HubJoined,
    HubLeft,
    HubProgressed,
    Opened,
    Retrying,
    Stopping,
    Tick,
    ToHub,
    TokenizerJoined,
    TokenizerLeft,
    TokenizerReady,
    ToTokenizer,
)
from services.gateway.generation import Delta, Ending, GenerateRequest, Usage
from services.gateway.journal import Journal
from shared import wire

REQUEST = GenerateRequest(
    sampling=wire.Sampling(seed=7),
    text=wire.TextOptions(stop=("END",)),
    prompt="hello",
    constraint=wire.Constraint("regex", "[a-c]+"),
)
PROMPT = (1, 2, 3)
COUNTS = wire.Counts(3, 2)
BAD = wire.Error("too long", "context_length_exceeded", "prompt")


class Bench:
    """A journal with one tokenizer and a scheduler, unless said otherwise."""

    def __init__(self, *, tokenizer_credits=4, hub=True, max_attempts=4, stall_timeout_s=10.0):
        self.journal = Journal("gw", max_attempts=max_attempts, stall_timeout_s=stall_timeout_s)
        self.now_s = 100.0
        self.tell(Tick(self.now_s))
        if tokenizer_credits:
            self.tell(TokenizerJoined("t1", "tokenizer-1"))
            self.tell(TokenizerReady("t1", tokenizer_credits))
        if hub:
            self.tell(HubJoined("hub"))

    def tell(self, event):
        return self.journal.handle(event)

    def open(self, request_id="r", timeout_s=1000.0, namespace="", trace_id=""):
        request = msgspec.structs.replace(REQUEST, namespace=namespace)
        return self.tell(Opened(request_id, request, self.now_s + timeout_s, trace_id))

    def run(self, request_id="r"):
        """Opened, encoded and accepted."""
        commands = self.open(request_id)
        self.tell(EncodedBy(commands[0].peer, wire.Encoded(request_id, 1)))
        assert self.tell(wire.Accepted(request_id, 1, PROMPT, 50)) == []

    def text(self, token_offset, text, *, text_offset, attempt=1, request_id="r", finish_reason=None, **fields):
        token_ids = tuple(range(token_offset, token_offset + len(text)))  # one token a character
        return self.tell(
            wire.TextUpdate(
                request_id,
                attempt,
                token_offset,
                token_ids,
                text_offset,
                text,
                COUNTS,
                finish_reason=finish_reason,
                **fields,
            )
        )

    def wait(self, seconds):
        """In one tick."""
        self.now_s += seconds
        return self.tell(Tick(self.now_s))


def of_kind(commands, kind):
    return [command for command in commands if isinstance(command, kind)]


def messages(commands, kind):
    return [command.message for command in of_kind(commands, ToHub) if isinstance(command.message, kind)]


def ending(commands):
    (finish,) = of_kind(commands, Finish)
    return finish.ending


# --- the straight way ------------------------------------------------------------------------------------------------


def test_a_request_is_encoded_streamed_and_ended():
    bench = Bench()
    assert bench.open() == [
        ToTokenizer(
            "t1",
            wire.Encode(
                *("r", 1, REQUEST.sampling, REQUEST.text),
                prompt="hello",
                constraint=REQUEST.constraint,
                time_left_s=1000.0,
            ),
        )
    ]
    assert bench.tell(EncodedBy("t1", wire.Encoded("r", 1))) == []
    assert bench.tell(wire.Accepted("r", 1, PROMPT, 50)) == []
    assert bench.text(0, "ab", text_offset=0) == [Deliver("r", Delta("ab", (0, 1), Usage(3, 2, 2)))]
    assert bench.text(2, "c", text_offset=2, finish_reason="stop", matched_stop=9) == [
        Deliver("r", Delta("c", (2,), Usage(3, 2, 3))),
        Finish("r", Ending(Usage(3, 2, 3), 1, "tokenizer-1", "stop", 9)),
    ]
    assert bench.journal.open_requests == 0


def test_an_ending_without_output_delivers_nothing():
    bench = Bench()
    bench.run()
    assert bench.text(0, "", text_offset=0, finish_reason="length") == [
        Finish("r", Ending(Usage(3, 2, 0), 1, "tokenizer-1", "length"))
    ]


def test_logprobs_are_cut_with_the_repeated_tokens():
    bench = Bench()
    bench.run()
    entries = tuple(wire.TextLogprob(i, -0.5, b"x") for i in range(3))
    bench.text(0, "ab", text_offset=0, logprobs=entries[:2])
    (delivery,) = bench.text(1, "bc", text_offset=1, logprobs=entries[1:])
    assert delivery.delta == Delta("c", (2,), Usage(3, 2, 3), entries[2:])


@pytest.mark.parametrize("error", [None, wire.Error("matcher failed", status=500)])
def test_an_error_in_the_output_ends_the_request_after_its_text(error):
    bench = Bench()
    bench.run()
    delivery, finish = bench.text(0, "a", text_offset=0, finish_reason="error", error=error)
    assert delivery.delta.text == "a"
    assert finish.ending.error is not None
    assert finish.ending.finish_reason is None


def test_refusals_end_the_request():
    bench = Bench()
    bench.open("a")
    bench.open("b")
    assert ending(bench.tell(EncodeFailedBy("t1", wire.EncodeFailed("a", 1, BAD)))).error == BAD
    assert ending(bench.tell(wire.Rejected("b", 1, BAD))).error == BAD


# --- tokenizers ------------------------------------------------------------------------------------------------------


def test_tokenizers_take_turns_within_their_credits():
    bench = Bench(tokenizer_credits=1)
    bench.tell(TokenizerJoined("t2", "tokenizer-2"))
    bench.tell(TokenizerReady("t2", 2))
    peers = [command.peer for name in "abcd" for command in bench.open(name)]
    assert peers == ["t1", "t2", "t2"]
    (freed,) = bench.tell(EncodedBy("t1", wire.Encoded("a", 1)))
    assert (freed.peer, freed.message.request_id) == ("t1", "d")


def test_work_waits_for_a_tokenizer_and_a_scheduler():
    bench = Bench(tokenizer_credits=0, hub=False)
    assert bench.open() == []
    bench.tell(TokenizerJoined("t1", "tokenizer-1"))
    assert bench.tell(TokenizerReady("t1", 1)) == []
    assert len(of_kind(bench.tell(HubJoined("hub")), ToTokenizer)) == 1


def test_a_tokenizer_that_dies_loses_no_request():
    bench = Bench()
    bench.open("encoding", trace_id="a1" * 16)
    bench.run("submitted")
    bench.tell(TokenizerJoined("t2", "tokenizer-2"))
    bench.tell(TokenizerReady("t2", 4))
    retry, encode = bench.tell(TokenizerLeft("t1"))
    assert retry == Retrying("encoding", 2, "its tokenizer left", "a1" * 16)
    assert (encode.peer, encode.message.request_id, encode.message.attempt) == ("t2", "encoding", 2)


def test_an_encode_whose_output_has_come_is_not_lost_with_its_tokenizer():
    bench = Bench()
    bench.open()
    bench.text(0, "a", text_offset=0)  # it overtook Encoded
    assert bench.tell(TokenizerLeft("t1")) == []


# --- loss ------------------------------------------------------------------------------------------------------------


def test_a_lost_attempt_is_submitted_again_with_all_that_is_known():
    bench = Bench()
    bench.run()
    bench.text(0, "ab", text_offset=0)
    assert bench.tell(wire.Lost("r", 1, "its executor died")) == [
        Retrying("r", 2, "its executor died"),
        ToHub(
            "hub",
            wire.Submit(
                *("r", 2, "gw", PROMPT, REQUEST.sampling, REQUEST.text, 50),
                resume_token_ids=(0, 1),
                text_offset=2,
                constraint=REQUEST.constraint,
                time_left_s=1000.0,
            ),
        ),
    ]
    commands = bench.text(2, "c", text_offset=2, attempt=2, finish_reason="stop")
    assert ending(commands).attempts == 2
    assert ending(commands).usage == Usage(3, 2, 3)  # the first attempt's cached tokens


def test_a_lost_attempt_that_was_never_accepted_is_encoded_again():
    bench = Bench()
    bench.open()
    commands = bench.tell(wire.Lost("r", 1, "unknown"))
    assert [command.message.attempt for command in of_kind(commands, ToTokenizer)] == [2]


def test_what_speaks_of_an_older_attempt_is_answered_with_an_abort_once_a_second():
    bench = Bench()
    bench.run()
    bench.tell(wire.Lost("r", 1, "x"))
    stale = ToHub("hub", wire.Abort("r", 1, "gw", "stale"))
    assert bench.text(0, "a", text_offset=0) == [stale]
    assert bench.text(1, "b", text_offset=1) == []
    assert bench.tell(wire.Accepted("unknown", 3, PROMPT, 50)) == [
        ToHub("hub", wire.Abort("unknown", 3, "gw", "stale"))
    ]
    bench.wait(1.5)
    assert bench.text(2, "c", text_offset=2) == [stale]


def test_what_was_under_way_at_the_end_needs_no_answer():
    bench = Bench()
    bench.run()
    bench.text(0, "a", text_offset=0, finish_reason="stop")
    assert bench.text(0, "a", text_offset=0, finish_reason="stop") == []
    assert bench.tell(wire.Lost("r", 1, "x")) == []


def test_a_repeated_update_delivers_nothing_and_a_gap_is_a_loss():
    bench = Bench()
    bench.run()
    bench.text(0, "ab", text_offset=0)
    assert bench.text(0, "ab", text_offset=0) == []
    assert of_kind(bench.text(3, "d", text_offset=3), Retrying) == [Retrying("r", 2, "a gap in its output")]


def test_a_gap_in_the_text_alone_is_a_loss_too():
    bench = Bench()
    bench.run()
    bench.text(0, "ab", text_offset=0)
    assert of_kind(bench.text(2, "c", text_offset=3), Retrying) != []


def test_later_retries_rest_before_they_start():
    bench = Bench()
    bench.run()
    bench.tell(wire.Lost("r", 1, "x"))
    assert messages(bench.tell(wire.Lost("r", 2, "x")), wire.Submit) == []
    assert messages(bench.wait(0.2), wire.Submit) == []
    assert [submit.attempt for submit in messages(bench.wait(0.1), wire.Submit)] == [3]


def test_a_request_is_given_up_after_its_last_attempt():
    bench = Bench(max_attempts=2)
    bench.run()
    bench.tell(wire.Lost("r", 1, "x"))
    commands = bench.tell(wire.Lost("r", 2, "no luck"))
    error = ending(commands).error
    assert (error.status, error.code) == (500, "attempts_exhausted")
    assert "no luck" in error.message
    assert messages(commands, wire.Abort) == [wire.Abort("r", 2, "gw", "stale")]


def test_attempts_that_bring_output_are_not_counted():
    bench = Bench(max_attempts=2)
    bench.run()
    for attempt in range(1, 6):
        bench.text(attempt - 1, "a", text_offset=attempt - 1, attempt=attempt)
        assert messages(bench.tell(wire.Lost("r", attempt, "x")), wire.Submit) != []


def test_attempts_that_an_executor_took_along_neither_count_nor_rest():
    bench = Bench(max_attempts=2)
    bench.run()
    for attempt in range(1, 6):
        (submit,) = messages(bench.tell(wire.Lost("r", attempt, "x", excused=True)), wire.Submit)
        assert submit.attempt == attempt + 1


# --- the scheduler ---------------------------------------------------------------------------------------------------


def test_a_new_scheduler_gets_what_the_old_one_had():
    bench = Bench()
    bench.run("a")
    bench.text(0, "x", text_offset=0, request_id="a")
    bench.open("b")
    assert bench.tell(HubLeft("hub")) == []
    assert bench.open("c") == []  # waits
    commands = bench.tell(HubJoined("hub2"))
    assert [(s.request_id, s.attempt, s.resume_token_ids) for s in messages(commands, wire.Submit)] == [("a", 2, (0,))]
    assert [command.message.request_id for command in of_kind(commands, ToTokenizer)] == ["c"]  # b is being encoded


def test_a_scheduler_that_left_long_ago_does_not_take_the_new_one_away():
    bench = Bench()
    bench.tell(HubJoined("hub2"))
    bench.tell(HubLeft("hub"))
    assert len(of_kind(bench.open(), ToTokenizer)) == 1


def test_the_audit_lists_what_was_sent_and_says_what_must_be_known():
    bench = Bench(tokenizer_credits=1)
    bench.run("old")
    bench.open("encoding")
    bench.open("waiting")
    entries = wire.AuditEntry("old", 1, False), wire.AuditEntry("encoding", 1, False)
    assert messages(bench.wait(1.5), wire.Audit) == [wire.Audit(entries)]
    assert messages(bench.wait(0.5), wire.Audit) == []  # one a second
    entries = wire.AuditEntry("old", 1, True), wire.AuditEntry("encoding", 1, False)
    assert messages(bench.wait(0.5), wire.Audit) == [wire.Audit(entries)]


def test_an_empty_audit_is_sent_too_for_what_the_scheduler_may_still_hold():
    bench = Bench()
    assert messages(bench.wait(1.0), wire.Audit) == [wire.Audit(())]


# --- time ------------------------------------------------------------------------------------------------------------


def test_tenants_take_turns_at_a_tokenizer():
    bench = Bench(tokenizer_credits=1)
    commands = [bench.open(name, namespace=name[0]) for name in ("a1", "a2", "a3", "b1")]
    commands += [bench.tell(EncodedBy("t1", wire.Encoded(name, 1))) for name in ("a1", "a2", "b1")]
    sent = [command.message.request_id for one in commands for command in of_kind(one, ToTokenizer)]
    assert sent == ["a1", "a2", "b1", "a3"]


def test_a_wait_for_a_tokenizer_is_what_it_has_not_spent_on_encoding():
    bench = Bench(tokenizer_credits=0)
    bench.open()
    bench.wait(1.0)
    bench.tell(TokenizerJoined("t1", "tokenizer-1"))
    bench.tell(TokenizerReady("t1", 1))
    bench.journal.handle(EncodedBy("t1", wire.Encoded("r", 1, 0.25)), 103.5)
    work = ending(bench.text(0, "ab", text_offset=0, finish_reason="stop")).work
    assert (work.tokenizer_wait_s, work.encode_s) == (3.25, 0.25)


def test_who_never_came_to_a_tokenizer_waited_for_it_in_each_attempt():
    bench = Bench()
    bench.open(timeout_s=5.0)
    bench.wait(1.5)
    bench.tell(TokenizerLeft("t1"))
    assert ending(bench.wait(3.5)).work.tokenizer_wait_s == 5.0


def test_who_came_to_the_scheduler_has_not_waited_for_a_tokenizer_until_its_end():
    bench = Bench()
    bench.open(timeout_s=5.0)
    bench.tell(wire.Accepted("r", 1, PROMPT, 50))  # its Encoded is late
    assert ending(bench.wait(5.0)).work.tokenizer_wait_s == 0.0


def test_a_deadline_ends_the_request_and_its_work():
    bench = Bench()
    bench.open(timeout_s=5.0)
    bench.tell(EncodedBy("t1", wire.Encoded("r", 1)))
    assert of_kind(bench.wait(4.0), Finish) == []
    commands = bench.wait(1.0)
    assert ending(commands).error.status == 504
    assert messages(commands, wire.Abort) == [wire.Abort("r", 1, "gw", "deadline")]


def test_a_deadline_is_kept_to_the_tick():
    bench = Bench()
    bench.wait(1.0)
    bench.open(timeout_s=0.4)
    assert of_kind(bench.wait(0.2), Finish) == []
    assert ending(bench.wait(0.2)).error.code == "deadline_exceeded"


def test_a_deadline_holds_for_what_still_waits():
    bench = Bench(tokenizer_credits=0)
    bench.open(timeout_s=5.0)
    commands = bench.wait(6.0)
    assert ending(commands).error.status == 504
    assert messages(commands, wire.Abort) == []


def test_a_stream_that_stalls_is_submitted_again():
    bench = Bench(stall_timeout_s=10.0)
    bench.run()
    bench.text(0, "a", text_offset=0)
    bench.tell(HubProgressed(1))
    bench.wait(9.0)
    bench.tell(HubProgressed(2))  # the scheduler gets on, but not with this request
    assert len(messages(bench.wait(2.0), wire.Submit)) == 1


def test_a_queued_request_does_not_stall_while_the_scheduler_gets_on():
    bench = Bench(stall_timeout_s=10.0)
    bench.run()
    for seq in range(1, 6):
        assert of_kind(bench.wait(8.0), Retrying) == []
        bench.tell(HubProgressed(seq))
    assert len(of_kind(bench.wait(11.0), Retrying)) == 1


def test_an_encode_that_stalls_is_tried_elsewhere():
    bench = Bench(stall_timeout_s=10.0)
    bench.open()
    bench.tell(HubProgressed(3))
    commands = bench.wait(11.0)
    assert [command.message.attempt for command in of_kind(commands, ToTokenizer)] == [2]


def test_a_lost_encode_does_not_cost_a_credit_for_ever():
    bench = Bench(tokenizer_credits=1, stall_timeout_s=10.0)
    bench.open()
    for attempt in (2, 3):
        commands = bench.wait(11.0) + bench.wait(1.0)
        assert [command.message.attempt for command in of_kind(commands, ToTokenizer)] == [attempt]


def test_an_update_without_tokens_is_no_output_yet():
    bench = Bench(stall_timeout_s=10.0)
    bench.run()
    bench.text(0, "", text_offset=0)
    for seq in range(1, 4):
        assert of_kind(bench.wait(8.0), Retrying) == []
        bench.tell(HubProgressed(seq))


# --- the client ------------------------------------------------------------------------------------------------------


def test_a_client_that_is_gone_frees_the_work():
    bench = Bench()
    bench.run()
    bench.text(0, "a", text_offset=0)
    abort, finish = bench.tell(ClientGone("r"))
    assert abort == ToHub("hub", wire.Abort("r", 1, "gw", "client"))
    assert finish.ending.error.status == 499
    assert finish.ending.usage == Usage(3, 2, 1)
    assert bench.tell(ClientGone("r")) == []


def test_a_client_that_leaves_the_queue_was_never_sent():
    bench = Bench(tokenizer_credits=0)
    bench.open()
    assert len(bench.tell(ClientGone("r"))) == 1
    bench.tell(TokenizerJoined("t1", "tokenizer-1"))
    assert bench.tell(TokenizerReady("t1", 1)) == []


def test_a_client_that_leaves_between_attempts_ends_the_older_one():
    bench = Bench()
    bench.run()
    bench.tell(wire.Lost("r", 1, "x"))
    bench.tell(wire.Lost("r", 2, "x"))
    assert messages(bench.tell(ClientGone("r")), wire.Abort) == [wire.Abort("r", 3, "gw", "client")]
    assert messages(bench.wait(5.0), wire.Submit) == []


def test_stopping_ends_everything():
    bench = Bench(tokenizer_credits=1)
    bench.run("a")
    bench.open("b")
    bench.open("c")
    commands = bench.tell(Stopping())
    assert [finish.ending.error.status for finish in of_kind(commands, Finish)] == [503, 503, 503]
    assert [abort.request_id for abort in messages(commands, wire.Abort)] == ["a", "b"]
