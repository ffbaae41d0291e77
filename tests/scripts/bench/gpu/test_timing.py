from collections.abc import Callable

from scripts.bench.gpu.timing import Times, in_turns


def test_sides_take_turns_and_every_round_starts_with_another() -> None:
    calls: list[str] = []
    figures = {"a": iter([9.0, 1.0, 5.0, 3.0]), "b": iter([9.0, 8.0, 2.0, 4.0])}

    def side(name: str) -> Callable[[], float]:
        def measure() -> float:
            calls.append(name)
            return next(figures[name])

        return measure

    found = in_turns({name: side(name) for name in "ab"}, rounds=3, warmups=1)
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab"
    assert found == {"a": Times(3.0, 1.0, 5.0), "b": Times(4.0, 2.0, 8.0)}
