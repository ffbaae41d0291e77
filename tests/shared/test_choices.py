from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from shared.choices import one_of


class Inner(msgspec.Struct):
    kind: Literal["a", "b"] | None = None


class Outer(msgspec.Struct):
    policy: Annotated[Literal["lpm", "fcfs"], Meta(description="d")] = "lpm"
    level: Literal[1, 2] = 1
    inner: list[Inner | None] | None = None
    named: dict[str, list[Inner]] = {}


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ({"policy": "best"}, "; one of fcfs, lpm"),
        ({"level": 3}, "; one of 1, 2"),
        ({"inner": [{"kind": "a"}, {"kind": "c"}]}, "; one of a, b"),
        ({"named": {"x.y [0]": [{"kind": "c"}]}}, "; one of a, b"),
        ({"policy": 1}, ""),
        ({"inner": 1}, ""),
    ],
)
def test_what_a_field_may_say_is_found_from_where_msgspec_has_seen_something_else(value, allowed):
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Outer)
    message, _, place = str(caught.value).rpartition(" - at `$")
    assert one_of(message, Outer, place.rstrip("`")) == allowed
