import builtins
import types
import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import wire

MESSAGES = [value for value in vars(wire).values() if isinstance(value, type) and issubclass(value, wire.Message)]
MESSAGES.remove(wire.Message)
UNIONS = [*wire.FRONT_ACCEPTS.values(), *wire.HUB_ACCEPTS.values()]
UNIONS += [wire.FrontToTokenizer, wire.FrontToDetokenizer]
HEX = "0af7651916cd43dd8448eb211c80319c"  # fits whatever has a pattern
UNIONS += [wire.HubToGateway, wire.HubToTokenizer, wire.HubToDetokenizer, wire.HubToExecutor]


def sample(kind):
    """A value of the type in which nothing is left at its default."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return kind(**{field.name: sample(field.type) for field in fields})
    match typing.get_origin(kind), typing.get_args(kind):
        case (typing.Annotated, (inner, msgspec.Meta() as meta)):
            return (
                "0af7651916cd43dd8448eb211c80319c"
                if meta.pattern
                else {int: (meta.lt or meta.le or 1) - 1}.get(inner, sample(inner))
            )
        case (typing.Literal, (first, *_)):
            return first
        case (types.UnionType | typing.Union, (first, *_)):
            return sample(first)
        case (builtins.tuple, (item, last)) if last is ...:
            return (sample(item), sample(item))
        case (builtins.tuple, items):
            return tuple(sample(item) for item in items)
        case (builtins.dict, (key, value)):
            return {sample(key): sample(value)}
    simple = {
        int: 2**40,
        float: 0.1,
        str: "é\x00\U0001f600",
        bytes: b"\xff\x00",
        bool: True,
        typing.Any: {"a": [1, None]},
    }
    return simple[kind]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_survives_the_wire(kind):
    message = sample(kind)
    for union in UNIONS:
        if kind in union.__args__:
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=union) == message


def test_every_message_may_be_said_by_somebody():
    said = {kind for union in UNIONS for kind in union.__args__}
    assert said == set(MESSAGES)


@given(st.binary(max_size=200))
def test_garbage_is_a_decoding_error_and_nothing_else(payload):
    for union in UNIONS:
        try:
            msgspec.msgpack.decode(payload, type=union)
        except msgspec.MsgspecError:
            continue


def test_a_plan_of_256_slices_stays_small():
    plan = wire.StepPlan(1, slices=tuple(wire.Slice(lane, 1) for lane in range(256)))
    assert len(msgspec.msgpack.encode(plan)) < 1000
