"""Constraints in a step, against the engine asked token by token: the same tokens and endings, whatever is jumped,
drafted, cut into slices or resumed; and what goes wrong in one request stays its own affair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from services.executor.chunk import Chunk
from services.executor.constraint.cache import GrammarCache
from services.executor.constraint.engine import Grammar, GrammarFailed
from services.executor.constraint.stage import ConstraintStage
from services.executor.constraint.states import StateStore
from services.executor.drafting import Drafting
from services.executor.masks import MaskFiller
from shared import wire
from shared.constraints import key_of
from tests.services.executor.test_step import GREEDY, Scheduler, admit, tokens
from tests.services.executor.test_step_drafts import Eager
from tests.support.plain_grammar import small_tokenizer
from tests.support.tiny_model import VOCAB_SIZE, tiny_tokenizer

EOS = (0, 2)
STORE_BYTES = 4 * 1024 * 1024

REGEXES = {
    "words": r"the (quick|lazy) (dog|fox)( and the (dog|fox)){0,3}\.",
    "free": r'\{"name": "[^"]{1,12}", "age": [0-9]{1,3}\}',
    "open": r"[a-z ]*",
    "fixed": r"nothing that the reader would rather know",
    "empty": r"",
}


def constraint(name: str) -> wire.Constraint:
    return wire.Constraint("regex", REGEXES[name])


def stage(*names: str, jumps: bool = True, budget_bytes: int = STORE_BYTES) -> ConstraintStage:
    grammars = GrammarCache(10 * STORE_BYTES)
    for name in names or REGEXES:
        text = LLMatcher.grammar_from_regex(REGEXES[name])
        grammars.put(Grammar(key_of(constraint(name)), text, small_tokenizer()))
    states = StateStore(small_tokenizer(), budget_bytes=budget_bytes, eos_token_ids=frozenset(EOS))
    return ConstraintStage(grammars, states, jumps=jumps)


def rule(context: Sequence[int], vocab_size: int) -> int:
    """What the model would say: mostly by the last two tokens, so that it repeats itself; at times the end."""
    whole = crc32(np.array(context, np.int64).tobytes())
    return EOS[0] if whole % 7 == 0 else crc32(bytes(token % 251 for token in context[-2:])) % vocab_size


@dataclass(frozen=True)
class Answer:
    output: tuple[int, ...]
    finish_reason: str
    choices: int  # tokens that were not forced


def expected(prompt: Sequence[int], name: str, most: int) -> Answer:
    """Token by token, by the engine alone."""
    matcher = LLMatcher(small_tokenizer(), LLMatcher.grammar_from_regex(REGEXES[name]), log_level=0)
    output: list[int] = []
    forced: list[int] = []
    choices = 0
    while True:
        if not forced:
            forced = list(matcher.compute_ff_tokens())
        allowed = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little").nonzero()[0]
        if matcher.is_accepting() and set(allowed.tolist()) <= set(EOS):
            return Answer(tuple(output), "stop", choices)
        if len(output) == most:
            return Answer(tuple(output), "length", choices)
        if forced:
            token = forced.pop(0)
        else:
            choices += 1
            wish = rule([*prompt, *output], VOCAB_SIZE)
            token = wish if wish in allowed else int(allowed[0])
        if token in EOS:
            return Answer((*output, token), "stop", choices)
        assert matcher.consume_token(token)
        output.append(token)


def scheduler_with(constraints: ConstraintStage, **more: object) -> Scheduler:
    return Scheduler(rule=rule, vocab_size=VOCAB_SIZE, eos=EOS, constraints=constraints, **more)  # type: ignore[arg-type]


@given(
    name=st.sampled_from(sorted(REGEXES)),
    start=st.integers(0, 60),
    most=st.integers(1, 30),
    chunk=st.sampled_from([1, 3, 100]),
    spare=st.sampled_from([0, 2, 40]),
    page_size=st.sampled_from([1, 4]),
    jumps=st.booleans(),
    logprobs=st.booleans(),
    drafting=st.sampled_from([None, Eager]),
    budget=st.sampled_from([0, STORE_BYTES]),
)
@settings(max_examples=300, deadline=None)
def test_the_tokens_are_those_of_the_engine(
    name: str,
    start: int,
    most: int,
    chunk: int,
    spare: int,
    page_size: int,
    jumps: bool,
    logprobs: bool,
    drafting: Callable[[], Drafting] | None,
    budget: int,
) -> None:
    constraints = stage(jumps=jumps, budget_bytes=budget)
    scheduler = scheduler_with(
        constraints, spare_tokens=spare, page_size=page_size, drafting=drafting() if drafting is not None else None
    )
    prompt = tokens(9, start)
    answer = expected(prompt, name, most)
    sampling = wire.Sampling(seed=0, temperature=0.0, logprobs=logprobs, top_logprobs=1)
    for _ in range(2):
        run = scheduler.run(prompt, most, chunk, sampling=sampling, constraint=constraint(name))
        assert (run.output, run.last.finish_reason) == (answer.output, answer.finish_reason)
    constraints.states.check_integrity()


@given(name=st.sampled_from(["words", "free", "open"]), cut=st.integers(0, 20), jumps=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_resumed_request_goes_on_where_it_was(name: str, cut: int, jumps: bool) -> None:
    prompt = tokens(9)
    answer = expected(prompt, name, 20)
    scheduler = scheduler_with(stage(jumps=jumps), spare_tokens=8)
    resumed = answer.output[:cut]
    run = scheduler.run(prompt, 20, constraint=constraint(name), resume_token_ids=resumed)
    assert (resumed + run.output, run.last.finish_reason) == (answer.output, answer.finish_reason)


def test_forced_tokens_cost_no_steps_of_their_own() -> None:
    answer = expected(tokens(9), "free", 40)
    forced = len(answer.output) - answer.choices
    assert forced >= 4
    slow, fast = (scheduler_with(stage(jumps=jumps), spare_tokens=40) for jumps in (False, True))
    for scheduler in (slow, fast):
        run = scheduler.run(tokens(9), 40, constraint=constraint("free"))
        assert run.output == answer.output
    assert run.last.forced_tokens == forced
    assert len(slow.model.batches) - len(fast.model.batches) >= forced - 1
    assert fast.result.constraints.forced_tokens == forced


def test_what_leaves_no_choice_at_all_is_never_computed() -> None:
    scheduler = scheduler_with(stage())
    outcome = scheduler.step(admits=(admit(0, tokens(9), 40, constraint=constraint("fixed")),))[0]
    assert tiny_tokenizer().decode(outcome.new_token_ids) == REGEXES["fixed"]
    assert outcome.finish_reason == "stop"
    assert not any(scheduler.model.batches)


def test_log_probabilities_are_there_for_forced_tokens_too() -> None:
    scheduler = scheduler_with(stage(), spare_tokens=40)
    sampling = wire.Sampling(seed=0, temperature=0.0, logprobs=True, top_logprobs=2)
    scheduler.step(admits=(admit(0, tokens(9), 40, sampling=sampling, constraint=constraint("free")),))
    found: list[int] = []
    steps = 0
    while scheduler.last.get(0) is None or scheduler.last[0].finish_reason is None:
        outcome = scheduler.slice(_0=9)[0]
        assert [logprob.token_id for logprob in outcome.logprobs] == list(outcome.new_token_ids)
        assert all(len(logprob.top) == 2 for logprob in outcome.logprobs)
        found += outcome.new_token_ids
        steps += 1
    answer = expected(tokens(9), "free", 40)
    assert tuple(found) == answer.output
    assert steps <= answer.choices + 1


def test_a_second_request_computes_no_mask_again() -> None:
    scheduler = scheduler_with(stage())
    scheduler.run(tokens(9), 30, constraint=constraint("free"))
    first = scheduler.result.constraints
    scheduler.run(tokens(9), 30, constraint=constraint("free"))
    second = scheduler.result.constraints
    assert second.computed_masks == first.computed_masks > 0
    assert second.inherited_masks - first.inherited_masks == first.computed_masks + first.inherited_masks


def test_what_is_not_compiled_waits_and_holds_nothing() -> None:
    scheduler = scheduler_with(stage("open"))
    outcome = scheduler.step(
        admits=(admit(0, tokens(9), 5, constraint=constraint("free")),), slices=(wire.Slice(0, 9),)
    )[0]
    assert outcome == wire.Outcome(0, 0, 0, waiting="grammar")
    assert scheduler.capacity() == (1000, 0, 0)
    scheduler.step(release=(0,), admits=(admit(0, tokens(9), 5, constraint=constraint("open")),))
    scheduler.finish(0)
    assert scheduler.last[0].finish_reason in ("stop", "length")


def test_without_the_stage_a_constraint_is_refused() -> None:
    scheduler = Scheduler()
    outcome = scheduler.step(admits=(admit(0, tokens(9), 5, constraint=constraint("open")),))[0]
    assert outcome.error is not None
    assert outcome.error.param == "constraint"


def test_a_request_whose_stop_tokens_leave_nothing_fails_alone() -> None:
    """The only way on is a token that would stop it where its output is not complete."""
    [first] = expected(tokens(9), "fixed", 1).output
    sampling = wire.Sampling(seed=0, temperature=0.0, stop_token_ids=(first,))
    scheduler = scheduler_with(stage())
    scheduler.step(
        admits=(
            admit(0, tokens(9), 20, sampling=sampling, constraint=constraint("fixed")),
            admit(1, tokens(9, 3), 20, constraint=constraint("open")),
            admit(2, tokens(9, 5), 6),
        )
    )
    scheduler.slice(_0=9, _1=9, _2=9)
    assert scheduler.last[0].error is not None
    assert scheduler.last[0].error.code == "constraint_failed"
    scheduler.finish(1, 2)
    assert tuple(scheduler.output[1]) == expected(tokens(9, 3), "open", 20).output
    assert scheduler.last[2].finish_reason in ("stop", "length")


def test_the_end_of_sequence_may_be_ignored() -> None:
    sampling = wire.Sampling(seed=0, temperature=0.0, ignore_eos=True)
    scheduler = scheduler_with(stage())
    run = scheduler.run(tokens(9), 50, sampling=sampling, constraint=constraint("open"))
    assert run.last.finish_reason == "length"
    assert not set(run.output) & set(EOS)


def test_a_stop_token_comes_only_where_the_output_is_complete() -> None:
    """Token 300 is no text of the grammar's: it may stop the request all the same."""
    stop = tiny_tokenizer().encode("the").ids[0]
    sampling = wire.Sampling(seed=1, temperature=1.0, stop_token_ids=(stop,))
    matched = set()
    for seed in range(30):
        scheduler = scheduler_with(stage())
        sampling = wire.Sampling(seed=seed, temperature=5.0, stop_token_ids=(stop,), ignore_eos=True)
        run = scheduler.run(tokens(9), 12, sampling=sampling, constraint=wire.Constraint("regex", REGEXES["open"]))
        matched.add(run.last.matched_stop)
        assert stop not in run.output[:-1]
    assert stop in matched


def test_cancelled_requests_leave_their_places() -> None:
    constraints = stage()
    scheduler = scheduler_with(constraints)
    scheduler.step(admits=tuple(admit(lane, tokens(9, lane), 30, constraint=constraint("free")) for lane in range(4)))
    scheduler.slice(_0=9, _1=9, _2=9, _3=9)
    scheduler.runner.cancel((0, 1))
    scheduler.runner.reset()
    constraints.states.check_integrity()
    assert scheduler.runner.running == 0


def test_unconstrained_neighbours_are_not_touched() -> None:
    alone = Scheduler(rule=rule, vocab_size=VOCAB_SIZE, eos=EOS)
    alone.run(tokens(9, 5), 12)
    scheduler = scheduler_with(stage(), spare_tokens=8)
    scheduler.step(
        admits=(admit(0, tokens(9), 30, constraint=constraint("free")), admit(1, tokens(9, 5), 12, sampling=GREEDY))
    )
    scheduler.finish(0, 1)
    assert scheduler.output[1] == alone.output[99]
    assert tuple(scheduler.output[0]) == expected(tokens(9), "free", 30).output
    assert pytest.approx(0) == scheduler.result.times.mask_s


def test_what_is_forced_stops_at_the_limit_also_where_the_prompt_is_scored() -> None:
    sampling = wire.Sampling(seed=0, temperature=0.0, prompt_logprobs_from=0)
    scheduler = scheduler_with(stage())
    run = scheduler.run(tokens(9), 3, sampling=sampling, constraint=constraint("fixed"))
    assert run.output == expected(tokens(9), "fixed", 3).output
    assert run.last.finish_reason == "length"
    assert len(run.last.prompt_logprobs) == 9


def test_prompt_scores_come_also_with_an_end_at_admission() -> None:
    """Nothing precedes the only token of this prompt, so it has no score to wait for."""
    sampling = wire.Sampling(seed=0, temperature=0.0, prompt_logprobs_from=0)
    scheduler = scheduler_with(stage())
    outcome = scheduler.step(admits=(admit(0, tokens(1), 40, sampling=sampling, constraint=constraint("fixed")),))[0]
    assert outcome.finish_reason == "stop"
    assert outcome.prompt_logprobs == (wire.TokenLogprob(tokens(1)[0], None),)


def test_a_draft_that_fails_leaves_no_cursor_behind() -> None:
    constraints = stage()
    scheduler = scheduler_with(constraints)
    scheduler.step(admits=(admit(0, tokens(9), 30, constraint=constraint("open")),))
    lane = scheduler.runner._lanes[0]
    letters = tiny_tokenizer().encode("the dog").ids
    chunk = Chunk(lane, 0, 9, np.array([*letters, tiny_tokenizer().encode("{").ids[0]]))
    assert lane.cursor is not None
    for _ in range(3):
        with pytest.raises(GrammarFailed):
            MaskFiller(constraints.states, VOCAB_SIZE, lambda: 0.0).fill([chunk])
    assert lane.cursor.state.cursors == 1


def test_states_of_grammars_that_are_given_up_go_with_the_next_step() -> None:
    constraints = stage("free")
    scheduler = scheduler_with(constraints)
    scheduler.run(tokens(9), 30, constraint=constraint("free"))
    assert len(constraints.states)
    constraints.grammars._budget_bytes = 0
    constraints.grammars.put(
        Grammar(key_of(constraint("open")), LLMatcher.grammar_from_regex(REGEXES["open"]), small_tokenizer())
    )
    scheduler.step()
    assert not len(constraints.states)
