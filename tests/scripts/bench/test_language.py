from collections import Counter

import pytest

from sapwood import Generation
from scripts.bench.language import BATCH, WORKLOADS, Found, Workload, records
from tests.support.fake_backend import FakeBackend

LINE = "Run 1.\n"


def encode(text: str) -> list[int]:
    return list(text.encode())


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_both_sides_make_the_same_calls(workload: Workload) -> None:
    plain: list[tuple[str, int | None]] = []

    def ask(prompt: str, max_tokens: int) -> str:
        plain.append((prompt, max_tokens))
        return " so"

    workload.plain(LINE, ask)
    backend = FakeBackend(lambda _request: " so")
    workload.program.run_batch([{"line": LINE, **arguments} for arguments in workload.batch], backend=backend)
    assert Counter(plain) == Counter((request.prompt, request.sampling.max_tokens) for request in backend.requests)
    assert len(plain) == (3 + 9 + 27 if workload.name == "tree of thought" else BATCH)


def test_records_have_the_prompts_tokens() -> None:
    answer = Generation(text="c", token_ids=(99,), prompt_tokens=2, cached_tokens=1)
    (record,) = records([("ab", [answer])], encode)
    assert (record.prompt_ids, record.output_ids, record.cached_tokens) == ((97, 98), (99,), 1)


def test_other_tokens_than_the_servers_are_noticed() -> None:
    with pytest.raises(AssertionError, match="tokens"):
        list(records([("ab", [Generation(text="c", prompt_tokens=3)])], encode))


@pytest.mark.parametrize(
    ("plain_s", "reused", "is_enough"),
    [([6.0, 6.0, 8.0], 98, True), ([6.0, 5.0, 5.0], 98, False), ([6.0, 6.0, 8.0], 97, False)],
)
def test_what_is_enough(plain_s: list[float], reused: int, is_enough: bool) -> None:
    found = Found(3, [2.0, 2.0, 2.0], plain_s, reused, 100)
    assert found.is_enough is is_enough
