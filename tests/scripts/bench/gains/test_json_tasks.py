from collections.abc import Iterator
from itertools import count

import pytest

from scripts.bench.gains.json_tasks import (
    HELD,
    JSON_KINDS,
    MOST_TRIES,
    PROMPTED,
    Json,
    Solved,
    first_json,
    solve,
    tries,
)
from scripts.bench.structured.kinds import Kind


def kind_named(name: str) -> Kind:
    return next(kind for kind in JSON_KINDS if name in kind.name)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('Sure:\n```json\n[1, {"b": []}]\n```\nAnything else?', '[1, {"b": []}]'),
        ('{broken} but {"a": "}"} and [2]', '{"a": "}"}'),
        ("none at all", "none at all"),
        ("[" * 1500, "[" * 1500),
    ],
)
def test_the_first_json_in_a_text(text: str, found: str) -> None:
    assert first_json(text) == found


@pytest.mark.parametrize("kind", JSON_KINDS, ids=lambda kind: kind.name)
def test_both_sides_ask_the_same_but_for_the_constraint(kind: Kind) -> None:
    held, prompted = (list(tries(kind, 3, side, "n")) for side in (HELD, PROMPTED))
    assert [body | kind.fields for body in prompted] == held
    assert not any(kind.fields.keys() & body.keys() for body in prompted)


def test_each_try_draws_anew_and_only_the_first_one_may_be_greedy() -> None:
    bodies = list(tries(JSON_KINDS[0], 2, PROMPTED, "n"))
    assert [body["temperature"] for body in bodies] == [0.0, *[1.0] * (MOST_TRIES - 1)]
    seeds = {body["seed"] for number in range(4) for body in tries(JSON_KINDS[0], number, PROMPTED, "n")}
    assert len(seeds) == 4 * MOST_TRIES


@pytest.mark.parametrize(
    ("answers", "solved"),
    [
        (["so: [[[1, 2], [3]], [[4], [5, 6]]]"], Solved(True, 1, 1.0)),
        (["no", "[1]", "[[[1], [2]], [[3], [4]]]", "never asked for"], Solved(True, 3, 1.0)),
        (["no", "[]"], Solved(False, 2, 1.0)),
    ],
)
def test_it_is_asked_for_until_it_obeys(answers: list[str], solved: Solved) -> None:
    said = iter(answers)

    def bodies() -> Iterator[Json]:
        yield from ({} for _ in answers[: solved.tries])
        assert not solved.is_right, "asked again"

    ticks = count()
    found = solve(lambda _body: next(said), kind_named("nested arrays"), bodies(), clock=lambda: float(next(ticks)))
    assert found == solved
