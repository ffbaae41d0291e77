from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.executor.reuse import LEAST_REQUESTS, LEAST_TOKENS, MOST_NAMESPACES, SAMPLE_EVERY, WINDOW_TOKENS, Reuse


def run(reuse: Reuse, requests: int, *, prompt_tokens: int = 1000, hit_tokens: int = 0, namespace: str = "a") -> int:
    """How many of them are kept cheaply."""
    return sum(reuse.note(namespace, prompt_tokens=prompt_tokens, hit_tokens=hit_tokens) for _ in range(requests))


@pytest.mark.parametrize(
    ("requests", "prompt_tokens", "hit_tokens", "is_cheap"),
    [
        (LEAST_REQUESTS, 1000, 0, True),
        (LEAST_REQUESTS - 1, 1000, 0, False),
        (LEAST_REQUESTS, LEAST_TOKENS // LEAST_REQUESTS - 1, 0, False),
        (LEAST_REQUESTS, 1000, 49, True),
        (LEAST_REQUESTS, 1000, 50, False),
        (2, 100_000, 0, False),
    ],
)
def test_a_namespace_is_cheap_once_enough_of_it_shows_little_reuse(
    requests: int, prompt_tokens: int, hit_tokens: int, is_cheap: bool
) -> None:
    reuse = Reuse()
    run(reuse, requests, prompt_tokens=prompt_tokens, hit_tokens=hit_tokens)
    assert reuse.cheap_namespaces == ({"a"} if is_cheap else set())


def test_namespaces_are_judged_one_by_one() -> None:
    reuse = Reuse()
    run(reuse, 50)
    run(reuse, 50, namespace="b", hit_tokens=500)
    run(reuse, 5, namespace="a/division")
    assert reuse.cheap_namespaces == {"a"}


def test_now_and_then_a_request_of_a_cheap_namespace_is_kept_fully() -> None:
    reuse = Reuse()
    run(reuse, LEAST_REQUESTS)
    kept = [reuse.note("a", prompt_tokens=1000, hit_tokens=0) for _ in range(5 * SAMPLE_EVERY)]
    assert kept.count(False) == 5
    assert kept[:SAMPLE_EVERY].count(False) == 1


def test_new_reuse_makes_it_full_again_however_long_it_was_cheap() -> None:
    reuse = Reuse()
    run(reuse, 10_000)
    needed = next(count for count in range(1, 100) if not (run(reuse, 1, hit_tokens=900), reuse.cheap_namespaces)[1])
    assert needed * 1000 <= WINDOW_TOKENS / 5


def test_between_the_two_marks_a_namespace_stays_what_it_is() -> None:
    reuse = Reuse()
    assert run(reuse, 500, hit_tokens=70) == 0
    run(reuse, 500, hit_tokens=0)
    assert reuse.cheap_namespaces == {"a"}
    run(reuse, 500, hit_tokens=70)
    assert reuse.cheap_namespaces == {"a"}


def test_the_namespaces_that_were_used_longest_ago_are_forgotten() -> None:
    reuse = Reuse()
    run(reuse, 50)
    run(reuse, 50, namespace="b")
    for number in range(MOST_NAMESPACES - 1):
        run(reuse, 1, namespace=str(number))
        run(reuse, 1, namespace="b")
    assert reuse.cheap_namespaces == {"b"}
    assert run(reuse, 1) == 0


@given(st.lists(st.tuples(st.integers(1, 100_000), st.floats(0, 1)), max_size=80))
def test_what_is_found_never_counts_more_than_what_was_asked(requests: list[tuple[int, float]]) -> None:
    """Who has always found more than a tenth is never cheap; who never found a thing is, in the end."""
    always, never, mixed = Reuse(), Reuse(), Reuse()
    for prompt_tokens, part in requests:
        always.note("a", prompt_tokens=prompt_tokens, hit_tokens=-(-prompt_tokens // 8))
        never.note("a", prompt_tokens=prompt_tokens, hit_tokens=0)
        mixed.note("a", prompt_tokens=prompt_tokens, hit_tokens=int(part * prompt_tokens))
        record = mixed._records["a"]
        assert 0 <= record.hit_tokens <= record.prompt_tokens <= WINDOW_TOKENS
    assert not always.cheap_namespaces
    is_known = len(requests) >= LEAST_REQUESTS and sum(tokens for tokens, _ in requests) >= LEAST_TOKENS
    assert bool(never.cheap_namespaces) == is_known
