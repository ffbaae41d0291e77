import dataclasses

import pytest

from sapwood import function, gen, run
from tests.support.fake_backend import FakeBackend


def checked(check, answer="12", **options):
    """Run the check on a value that was not attached."""

    def program(s):
        s += "p"
        check(gen("x", **options))

    run(function(program), backend=FakeBackend(lambda _request: answer))


@pytest.mark.parametrize(
    "check",
    [
        lambda value: value == "12",
        lambda value: value != "13",
        lambda value: value < "2",
        lambda value: value >= "12",
        lambda value: hash(value) == hash("12"),
        lambda value: bool(value),
        lambda value: int(value) == 12,
        lambda value: float(value) == 12.0,
        lambda value: len(value) == 2,
        lambda value: "1" in value,
        lambda value: list(value) == ["1", "2"],
        lambda value: value[0] == "1",
        lambda value: value.startswith("1"),
        lambda value: f"<{value}>" == "<12>",
        lambda value: f"{value:>4}" == "  12",
        lambda value: str("a" + value) == "a12",
        lambda value: f"{value + 'b'}" == "12b",
    ],
)
def test_it_behaves_as_the_text(check):
    def asserted(value):
        assert check(value)

    checked(asserted)


@pytest.mark.parametrize(
    "check",
    [
        lambda value: value + 1 == 13,
        lambda value: 1 + value == 13,
        lambda value: 2 * value - 1 == 23,
        lambda value: 24 / value == 2,
        lambda value: "x" * value == "x" * 12,
        lambda value: list(range(20))[value] == 12,
        lambda value: value > 11,
        lambda value: (value % 5, 25 % value, value // 5, 25 // value) == (2, 1, 2, 2),
        lambda value: (value**2, -value, abs(value), round(value)) == (144, -12, 12, 12),
        lambda value: (2**value, divmod(value, 5), divmod(25, value)) == (4096, (2, 2), (2, 1)),
        lambda value: (value & 4, 5 & value, value | 1, 1 | value, value ^ 4, 4 ^ value) == (4, 4, 13, 13, 8, 8),
        lambda value: (value << 1, 1 << value, value >> 1, 8192 >> value, +value, ~value) == (24, 4096, 6, 2, 12, -13),
    ],
)
def test_it_behaves_as_a_number(check):
    def asserted(value):
        assert check(value)

    checked(asserted, dtype=int)


def test_it_is_shown_without_being_waited_for():
    def check(value):
        assert repr(value) == "<gen x>"
        assert value == "12"
        assert repr(value) == "'12'"

    checked(check)


def test_an_attached_value_joins_to_plain_text():
    def check(value):
        assert value == "12"
        assert isinstance(value + "b", str)
        assert ("a" + value).upper() == "A12"

    checked(check)


@dataclasses.dataclass
class Person:
    age: int


def test_what_is_changed_is_the_value():
    def change(value):
        value.age = 9
        value.seen = True
        del value.seen
        assert value == Person(9)

    checked(change, answer='{"age": 1}', json_schema=Person)


def test_a_part_that_is_changed_is_the_values():
    def change(value):
        value["a"] = 3
        del value["b"]
        assert value == {"a": 3}

    checked(change, answer='{"a": 1, "b": 2}', json_schema=dict[str, int])
