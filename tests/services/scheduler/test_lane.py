"""What is believed of a lane between its plans and their results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.lane import Lane
from services.scheduler.request import Request
from shared import wire
from shared.tokens import pages_up
from tests.services.scheduler.hub import submit


def lane(prompt=10, max_new_tokens=5, page_size=1, hint=0):
    request = Request(submit(prompt=prompt, max_new_tokens=max_new_tokens), 1, 0.0, max_new_tokens)
    return Lane(0, "executor", request, page_size, 1, hint)


def outcome(computed, cached=0, **fields):
    return wire.Outcome(0, computed, cached, **fields)


def test_slices_in_flight_chase_what_is_known_and_sample_when_they_reach_it():
    begun = lane()
    begun.plan(1, 6, 0.0)
    assert begun.belief() == (6, 10)
    begun.plan(2, 6, 0.0)
    assert begun.belief() == (10, 11)
    assert begun.remaining_tokens() == 1


def test_a_hint_is_believed_until_the_first_result_knows_better():
    started = lane(hint=7)
    started.plan(1, 2, 0.0)
    assert started.belief().computed_tokens == 9
    assert started.apply(outcome(5, cached=3)).tokens == 2
    started.land(1)
    assert started.belief() == (5, 10)


def test_work_is_what_was_computed_not_what_was_cached():
    started = lane()
    started.plan(1, 10, 0.0)
    work = started.apply(outcome(10, cached=8))
    assert (work.slices, work.tokens, work.read) == (1, 2, 10)


def test_no_slice_follows_the_last_token_unless_the_executor_does_not_say_that_it_is_over():
    started = lane(max_new_tokens=1)
    started.plan(1, 10, 0.0)
    assert started.remaining_tokens() == 0
    started.apply(outcome(10, new_token_ids=(5,)))
    started.land(1)
    started.request.generated.append(5)
    assert started.remaining_tokens() == 1


def test_a_first_slice_that_was_not_run_has_left_nothing():
    started = lane()
    started.plan(1, 10, 0.0)
    started.plan(2, 1, 0.0)
    started.apply(outcome(0, declined=True))
    started.land(1)
    assert not started.failed_to_start, "the second slice may still run, as the first one"
    started.land(2)
    assert started.failed_to_start


@pytest.mark.parametrize(("page_size", "shared"), [(1, (3, 9, 10)), (4, (0, 8, 8))])
def test_what_others_can_find_is_what_the_plans_before_theirs_compute_in_whole_pages(page_size, shared):
    started = lane(hint=3, page_size=page_size)
    started.plan(1, 6, 0.0)
    started.plan(2, 6, 0.0)
    assert tuple(started.shared_before(seq) for seq in (1, 2, 3)) == shared


@pytest.mark.parametrize("page_size", [1, 4, 16])
@given(computed=st.integers(1, 60), more=st.integers(1, 40), sizes=st.lists(st.integers(1, 20), min_size=1, max_size=2))
def test_growth_is_exactly_what_the_slices_take(page_size, computed, more, sizes):
    settled = lane(prompt=computed + more, page_size=page_size, max_new_tokens=50)
    settled.plan(1, computed, 0.0), settled.apply(outcome(computed)), settled.land(1)
    reserved = 0
    for seq, size in enumerate(sizes, start=2):
        reserved += settled.growth_tokens(size)
        settled.plan(seq, size, 0.0)
    held = pages_up(computed, page_size)
    assert held + reserved == pages_up(settled.belief().computed_tokens, page_size)


@pytest.mark.parametrize("page_size", [1, 4, 16])
@given(computed=st.integers(1, 60), gained=st.integers(0, 8), spare=st.integers(0, 8))
def test_whatever_drafts_bring_is_within_what_was_reserved(page_size, computed, gained, spare):
    """Of two plans in flight the first brings `gained` tokens more; what the second reserves was set before."""
    settled = lane(prompt=computed, page_size=page_size, max_new_tokens=50)
    settled.plan(1, computed, 0.0), settled.apply(outcome(computed)), settled.land(1)
    settled.request.generated.append(5)
    settled.plan(2, 1, 0.0), settled.allow_more()
    reserved = settled.growth_tokens(1) + spare * page_size
    settled.plan(3, 1, 0.0), settled.allow_more()
    settled.apply(outcome(computed + 1 + gained)), settled.land(2)
    settled.request.generated.extend([5] * (1 + gained))
    assert settled.belief() == (computed + 2 + gained, computed + 3 + gained)
    assert settled.remaining_tokens() == 1
    held, most = (pages_up(tokens, page_size) for tokens in (computed + 1 + gained, computed + 2 + gained + spare))
    assert held + reserved >= most


@pytest.mark.parametrize("page_size", [1, 4, 16])
@given(computed=st.integers(0, 60), known=st.integers(61, 200), room=st.integers(0, 150), settled=st.booleans())
def test_the_longest_slice_within_some_room_grows_within_it(page_size, computed, known, room, settled):
    some = lane(prompt=known, page_size=page_size)
    if settled and computed:
        some.plan(1, computed, 0.0), some.apply(outcome(computed)), some.land(1)
    longest = some.tokens_within(room)
    assert longest == 0 or some.growth_tokens(longest) <= room
    if longest < some.remaining_tokens():
        assert some.growth_tokens(longest + 1) > room


# --- forced tokens ---------------------------------------------------------------------------------------------------


def constrained(prompt=10, computed=10, max_new_tokens=50, page_size=1):
    """One that has its prompt behind it, and has brought a token."""
    message = submit(prompt=prompt, max_new_tokens=max_new_tokens, constraint=wire.Constraint("regex", "a+"))
    begun = Lane(0, "executor", Request(message, 1, 0.0, max_new_tokens), page_size, 1, 0)
    begun.plan(1, prompt, 0.0)
    report(begun, 1, outcome(computed, new_token_ids=(5,)))
    return begun


def report(some, seq, said):
    some.apply(said), some.land(seq)
    some.request.generated.extend(said.new_token_ids)


def test_forced_tokens_are_believed_to_be_computed_by_the_slice_that_may_exceed_its_length_for_them():
    begun = constrained()
    begun.plan(2, 1, 0.0)
    begun.plan(3, 1, 0.0), begun.allow_more(forced_tokens=4)
    report(begun, 2, outcome(11, new_token_ids=(5, 6, 7, 8)))
    assert begun.belief() == (15, 16)
    assert begun.remaining_tokens() == 1


def test_forced_tokens_that_nothing_was_spared_for_are_left_and_are_no_prompt():
    begun = constrained()
    begun.plan(2, 1, 0.0), begun.plan(3, 1, 0.0), begun.allow_more(forced_tokens=1)
    report(begun, 2, outcome(11, new_token_ids=(5, 6, 7, 8)))
    assert begun.remaining_tokens() == 2
    assert begun.prompt_left() == 0


def test_a_prompt_that_is_not_computed_is_left_but_for_its_last_token():
    begun = lane(prompt=10)
    begun.plan(1, 4, 0.0)
    assert begun.prompt_left() == 6
    begun.plan(2, 5, 0.0)
    assert (begun.prompt_left(), begun.remaining_tokens()) == (0, 1)


def test_what_a_request_comes_back_with_is_its_prompt():
    resumed = constrained()
    resumed.request.generated.extend([5] * 20)
    again = Lane(1, "executor", resumed.request, 1, 7, 0)
    assert again.prompt_left() == 31
    again.plan(7, 11, 0.0)
    assert again.prompt_left() == 20


def test_no_slice_follows_forced_tokens_up_to_the_limit():
    begun = constrained(max_new_tokens=5)
    begun.plan(2, 1, 0.0)
    begun.plan(3, 1, 0.0), begun.allow_more(forced_tokens=8)
    report(begun, 2, outcome(11, new_token_ids=(5, 6, 7)))
    assert begun.remaining_tokens() == 0, "four are known, and the fifth is believed to be sampled"
    report(begun, 3, outcome(12))
    assert begun.remaining_tokens() == 2, "there was less to spare than it seemed"


def test_what_is_asked_for_follows_what_came_lately():
    assert lane().forced_ask(32) == 0, "it is not constrained"
    begun = constrained()
    assert begun.forced_ask(0) == 0
    few = begun.forced_ask(32)
    begun.apply(outcome(11, new_token_ids=(5,) * 8))
    assert few < begun.forced_ask(32) < 12
    assert begun.forced_ask(4) == 4
    for computed in range(20, 40):
        begun.apply(outcome(computed))
    assert begun.forced_ask(32) > few, "steps that bring nothing say nothing"
    for computed in range(40, 60):
        begun.apply(outcome(computed, new_token_ids=(5,)))
    assert 0 < begun.forced_ask(32) < few


def test_what_shows_only_once_it_is_computed_is_asked_for_more_and_more():
    begun = constrained()
    for _ in range(20):
        begun.apply(outcome(11, new_token_ids=(5,) * (1 + begun.forced_ask(32))))
    assert begun.forced_ask(32) == 32


@pytest.mark.parametrize("page_size", [1, 4, 16])
@given(computed=st.integers(1, 60), forced=st.integers(0, 40), credit=st.integers(0, 40), spent=st.integers(0, 40))
def test_whatever_is_believed_of_forced_tokens_there_is_room_for_what_comes(page_size, computed, forced, credit, spent):
    """What the next slice reserves is decided by belief; it holds wherever the one before it has really ended."""
    begun = constrained(prompt=computed, computed=computed, max_new_tokens=200, page_size=page_size)
    begun.plan(2, 1, 0.0)
    begun.plan(3, 1, 0.0), begun.allow_more(forced_tokens=credit)
    report(begun, 2, outcome(computed + 1, new_token_ids=(5,) * (1 + forced)))
    wanted = begun.remaining_tokens()
    reserved = begun.growth_tokens(wanted)
    really = min(computed + 2 + spent, computed + 2 + forced)
    grown = pages_up(min(really + wanted, computed + 3 + forced), page_size) - pages_up(really, page_size)
    assert grown <= reserved
