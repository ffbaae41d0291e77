"""The table of open requests: offsets, attempts, ends."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.detokenizer.core import ENDED_KEPT, Core, Send
from services.detokenizer.vocabulary import Vocabulary
from shared import wire

COUNTS = wire.Counts(7, 3)
EOS = 1
VOCABULARY = Vocabulary([b"", b"<end>", *(bytes([byte]) for byte in range(2, 256))], special_ids=frozenset({EOS}))


def ids(text):
    return tuple(text.encode())


def opened(*, attempt=1, stop=(), resume="", offset=0, **options):
    text = wire.TextOptions(stop=stop, **options)
    return wire.Open("r", attempt, "gw", text, resume_token_ids=ids(resume), text_offset=offset)


def update(offset, tokens, *, attempt=1, **rest):
    return wire.TokenUpdate(
        "gw", "r", attempt, offset, ids(tokens) if isinstance(tokens, str) else tokens, COUNTS, **rest
    )


@pytest.fixture
def core():
    core = Core(VOCABULARY)
    core.gateway_joined("gw")
    return core


def sent(commands):
    [send] = commands
    assert isinstance(send, Send)
    return send.update


def stale(attempt=1, request_id="r"):
    return [wire.Abort(request_id, attempt, "gw", "stale")]


def test_ids_go_out_with_their_text_and_both_offsets(core):
    core.open(opened())
    assert sent(core.take(update(0, "ab"))) == wire.TextUpdate("r", 1, 0, ids("ab"), 0, "ab", COUNTS)
    assert sent(core.take(update(2, "c"))) == wire.TextUpdate("r", 1, 2, ids("c"), 2, "c", COUNTS)


def test_ids_go_out_although_their_text_is_held(core):
    core.open(opened(stop=("bcd",)))
    assert sent(core.take(update(0, "ab"))) == wire.TextUpdate("r", 1, 0, ids("ab"), 0, "a", COUNTS)
    assert sent(core.take(update(2, "c"))) == wire.TextUpdate("r", 1, 2, ids("c"), 1, "", COUNTS)
    assert sent(core.take(update(3, "e"))) == wire.TextUpdate("r", 1, 3, ids("e"), 1, "bce", COUNTS)


@pytest.mark.parametrize("reason", ["stop", "length", "abort", "error"])
def test_an_end_lets_go_what_is_held_and_closes_the_request(core, reason):
    core.open(opened(stop=("bcd",)))
    error = wire.Error("broken") if reason == "error" else None
    end = sent(core.take(update(0, "abc", finish_reason=reason, error=error)))
    assert (end.text, end.finish_reason, end.error) == ("abc", reason, error)
    assert core.open_requests == 0


def test_an_end_may_come_without_tokens(core):
    core.open(opened(stop=("bcd",)))
    core.take(update(0, "ab"))
    end = sent(core.take(update(2, "", finish_reason="length")))
    assert end == wire.TextUpdate("r", 1, 2, (), 1, "b", COUNTS, finish_reason="length")


def test_a_character_cut_short_shows_at_the_end(core):
    core.open(opened())
    first, *_ = "好".encode()
    assert sent(core.take(update(0, (first,)))).text == ""
    assert sent(core.take(update(1, "", finish_reason="length"))).text == "�"


def test_a_stop_string_ends_the_request_here_and_at_the_scheduler(core):
    core.open(opened(stop=("bc",)))
    core.take(update(0, "ab"))
    send, abort = core.take(update(2, "cde"))
    assert send.update == wire.TextUpdate("r", 1, 2, ids("c"), 1, "", COUNTS, finish_reason="stop", matched_stop="bc")
    assert abort == wire.Abort("r", 1, "gw", "stop_string")
    assert core.take(update(5, "f")) == []
    assert core.take(update(6, "", finish_reason="abort")) == []


def test_a_stop_string_wins_over_the_end_that_comes_with_it(core):
    core.open(opened(stop=("b",)))
    end = sent(core.take(update(0, "abc", finish_reason="length")))
    assert (end.text, end.token_ids, end.finish_reason, end.matched_stop) == ("a", ids("ab"), "stop", "b")


def test_a_stop_string_may_stay_in_the_text(core):
    core.open(opened(stop=("bc",), include_stop=True))
    assert core.take(update(0, "abcd"))[0].update.text == "abc"


def test_a_stop_pattern_ends_the_request_as_a_stop_string_does(core):
    core.open(opened(stop_regex=("b+c",)))
    assert sent(core.take(update(0, "abb"))).text == "a"
    send, abort = core.take(update(3, "cd"))
    assert send.update == wire.TextUpdate("r", 1, 3, ids("c"), 1, "", COUNTS, finish_reason="stop", matched_stop="b+c")
    assert abort == wire.Abort("r", 1, "gw", "stop_string")


@pytest.mark.parametrize(
    ("options", "text"), [({}, "a"), ({"include_stop": True}, "ab"), ({"include_stop": True, "stop": ("b",)}, "ab")]
)
def test_a_stop_token_is_an_output_token_without_text(core, options, text):
    core.open(opened(**options))
    end = sent(core.take(update(0, "ab", finish_reason="stop", matched_stop=ord("b"))))
    assert (end.token_ids, end.text) == (ids("ab"), text)
    assert end.finish_reason == "stop"


def test_a_special_stop_token_shows_neither_when_special_tokens_do(core):
    core.open(opened(skip_special_tokens=False))
    end = sent(core.take(update(0, (97, EOS), finish_reason="stop", matched_stop=EOS)))
    assert (end.text, end.token_ids, end.matched_stop) == ("a", (97, EOS), EOS)


def test_logprobs_come_with_their_tokens_and_bytes(core):
    core.open(opened(stop=("b",)))
    logprobs = tuple(wire.TokenLogprob(i, -1.0, ((i, -1.0), (EOS, -2.0))) for i in ids("abc"))
    send, _ = core.take(update(0, "abc", logprobs=logprobs))
    assert [entry.token_bytes for entry in send.update.logprobs] == [b"a", b"b"]
    assert send.update.logprobs[0].top == ((97, -1.0, b"a"), (EOS, -2.0, b"<end>"))


# --- late, repeated and missing messages -----------------------------------------------------------------------------


def test_what_was_taken_in_before_is_left_out(core):
    core.open(opened())
    core.take(update(0, "abc"))
    assert core.take(update(0, "abc")) == []
    logprobs = tuple(wire.TokenLogprob(i, -1.0) for i in ids("bcd"))
    again = sent(core.take(update(1, "bcd", logprobs=logprobs)))
    assert (again.token_offset, again.token_ids, again.text_offset, again.text) == (3, ids("d"), 3, "d")
    assert [entry.token_id for entry in again.logprobs] == list(ids("d"))


def test_a_gap_drops_the_request(core):
    core.open(opened())
    core.take(update(0, "a"))
    assert core.take(update(2, "c")) == stale()
    assert core.open_requests == 0
    assert core.take(update(3, "d")) == stale()


def test_a_request_that_is_not_known_is_stale(core):
    assert core.take(update(0, "a")) == stale()


def test_the_newer_attempt_ends_the_older(core):
    core.open(opened())
    core.take(update(0, "ab"))
    core.open(opened(attempt=2, resume="ab", offset=2))
    assert core.take(update(2, "c")) == []
    assert sent(core.take(update(2, "x", attempt=2))).text == "x"
    assert core.open(opened()) == []
    assert sent(core.take(update(3, "y", attempt=2))).text == "y"
    assert core.open_requests == 1


def test_an_attempt_that_was_not_opened_here_is_stale(core):
    core.open(opened())
    assert core.take(update(0, "a", attempt=2)) == stale(2)
    assert core.open_requests == 1


def test_an_older_attempt_does_not_end_twice(core):
    core.open(opened(attempt=2))
    core.take(update(0, "a", attempt=2, finish_reason="length"))
    assert core.take(update(0, "a", finish_reason="abort")) == []


def test_nothing_is_kept_for_a_gateway_that_is_not_there(core):
    gone = [wire.Abort("r", 1, "gw", "gateway_gone")]
    assert Core(VOCABULARY).open(opened()) == gone
    core.open(opened())
    assert core.gateway_left("gw") == gone
    assert core.open_requests == 0


def test_a_gateway_that_leaves_takes_only_its_own_requests(core):
    core.gateway_joined("other")
    core.open(opened())
    core.open(wire.Open("r", 1, "other", wire.TextOptions()))
    assert core.gateway_left("other") == [wire.Abort("r", 1, "other", "gateway_gone")]
    assert sent(core.take(update(0, "a"))).text == "a"


def test_a_scheduler_that_leaves_takes_everything(core):
    core.open(opened())
    core.hub_left()
    assert core.open_requests == 0


def test_requests_that_never_end_do_not_fill_the_memory():
    core = Core(VOCABULARY, max_open=2)
    core.gateway_joined("gw")
    for name in ("a", "b"):
        assert core.open(wire.Open(name, 1, "gw", wire.TextOptions())) == []
    core.take(wire.TokenUpdate("gw", "a", 1, 0, ids("x"), COUNTS))
    assert core.open(wire.Open("c", 1, "gw", wire.TextOptions())) == stale(request_id="b")
    assert core.open_requests == 2


def test_ends_are_remembered_for_a_while_only(core):
    for number in range(ENDED_KEPT + 5):
        core.open(wire.Open(str(number), 1, "gw", wire.TextOptions()))
        core.take(wire.TokenUpdate("gw", str(number), 1, 0, (), COUNTS, finish_reason="stop"))
    assert core.take(wire.TokenUpdate("gw", "0", 1, 0, ids("x"), COUNTS)) == stale(request_id="0")
    assert core.take(wire.TokenUpdate("gw", "9", 1, 0, ids("x"), COUNTS)) == []


# --- resuming --------------------------------------------------------------------------------------------------------


def test_a_resumed_request_goes_on_at_its_offsets(core):
    core.open(opened(attempt=2, resume="abc", offset=3))
    assert sent(core.take(update(3, "d", attempt=2))) == wire.TextUpdate("r", 2, 3, ids("d"), 3, "d", COUNTS)


def test_text_that_was_held_when_the_attempt_was_lost_is_still_held(core):
    core.open(opened(attempt=2, stop=("cde",), resume="abc", offset=2))
    assert sent(core.take(update(3, "d", attempt=2))).text == ""
    assert core.take(update(4, "e", attempt=2))[0].update.text == ""
    core.open(opened(attempt=3, stop=("cde",), resume="abc", offset=2))
    assert sent(core.take(update(3, "x", attempt=3))).text == "cx"


def test_a_stop_string_that_is_complete_in_the_resumed_tokens_ends_it_at_its_next_update(core):
    core.open(opened(attempt=2, stop=("bc",), resume="abcd", offset=0))
    send, abort = core.take(update(4, "e", attempt=2))
    assert send.update == wire.TextUpdate("r", 2, 4, (), 0, "a", COUNTS, finish_reason="stop", matched_stop="bc")
    assert abort.reason == "stop_string"


def test_text_that_was_not_sent_before_comes_with_the_next_update(core):
    core.open(opened(attempt=2, resume="abc", offset=1))
    resumed = sent(core.take(update(3, "d", attempt=2)))
    assert (resumed.text_offset, resumed.text) == (1, "bcd")


def test_text_that_was_sent_before_is_not_sent_again(core):
    core.open(opened(attempt=2, stop=("cd",), resume="abc", offset=3))  # sent although it would be held here
    resumed = sent(core.take(update(3, "x", attempt=2)))
    assert (resumed.text_offset, resumed.text) == (3, "x")


texts = st.text(st.sampled_from("abcd好"), max_size=12)
stops = st.builds(
    wire.TextOptions,
    stop=st.tuples(st.text(st.sampled_from("abcd好"), max_size=3)),
    include_stop=st.booleans(),
    stop_regex=st.sampled_from([(), ("a[^b]+好",), ("^ab|dd", "(?:ac?){2}b"), (r"\bd$",)]),
)


@given(output=texts, options=stops, cuts=st.lists(st.integers(0, 40), max_size=2), size=st.integers(1, 5))
def test_a_client_sees_the_same_however_often_an_attempt_was_lost(output, options, cuts, size):
    tokens = ids(output)
    assert client_view([*sorted(cuts), len(tokens)], tokens, options, size) == client_view(
        [len(tokens)], tokens, options, size
    )


def client_view(reaches, tokens, options, size):
    """What the client has after attempts that get so far, each in a process of its own; the last one ends."""
    seen = wire.TextUpdate("r", 0, 0, (), 0, "", COUNTS)
    for attempt, reach in enumerate(reaches, start=1):
        core = Core(VOCABULARY)
        core.gateway_joined("gw")
        core.open(wire.Open("r", attempt, "gw", options, False, seen.token_ids, len(seen.text)))
        commands = []
        for start in range(len(seen.token_ids), reach, size):
            commands += core.take(update(start, tokens[start : min(start + size, reach)], attempt=attempt))
        if attempt == len(reaches):
            commands += core.take(update(len(tokens), (), attempt=attempt, finish_reason="length"))
        for command in commands:
            if isinstance(command, Send):
                seen = extended(seen, command.update)
        if seen.finish_reason is not None:
            break
    return seen.token_ids, seen.text, seen.finish_reason, seen.matched_stop


def extended(seen, more):
    assert seen.finish_reason is None
    assert (more.token_offset, more.text_offset) == (len(seen.token_ids), len(seen.text))
    return msgspec.structs.replace(more, token_ids=seen.token_ids + more.token_ids, text=seen.text + more.text)


def test_a_stop_pattern_that_cannot_be_read_is_that_attempts_end(core):
    assert core.open(opened(stop_regex=("(",))) == stale()
    assert core.open_requests == 0
