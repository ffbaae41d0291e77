"""Frames that nobody should send: messages of the wire with plausible values, in no order, and what is left of them
after bytes were changed, cut, doubled or spliced, and values swapped for others of any type.

Knows the wire's types. Does not know who reads them.
"""

import builtins
import random
import types
import typing

import msgspec

from shared import wire

NAMES = ("r1", "r2", "r3", "gw", "tokenizer", "detokenizer", "executor", "hub", "call", "")
NUMBERS = (0, 1, 2, 3, 4, 8, 40, 300, 2**31 - 1)
STRANGE = (
    None,
    True,
    -1,
    2**63,
    1e308,
    float("nan"),
    "",
    "\x1b[2J\n",
    b"\xff",
    [],
    {},
    [[[[]]]],
    {"a": [1]},
    "x" * 999,
)
UNIONS = {
    "front": wire.FRONT_ACCEPTS,
    "hub": wire.HUB_ACCEPTS,
    "to tokenizer": {"gateway": wire.FrontToTokenizer, "scheduler": wire.HubToTokenizer},
    "to detokenizer": {"gateway": wire.FrontToDetokenizer, "scheduler": wire.HubToDetokenizer},
    "to gateway": {"scheduler": wire.HubToGateway},
    "to executor": {"scheduler": wire.HubToExecutor},
}


class Frames:
    """Args:
    unchanged: the share of messages that stay as they are.
    """

    def __init__(self, seed: int, *, unchanged: float = 0.4) -> None:
        self.random = random.Random(seed)
        self._unchanged = unchanged
        self._earlier: list[bytes] = [b"\xc0"]

    def payload(self, union: typing.Any) -> bytes:
        """A message of the union, as it is or spoilt; now and then one that was said before, or of another union."""
        kind = self.random.choice([kind for kind in union.__args__ if kind is not wire.Hello])
        payload = msgspec.msgpack.encode(self.value(kind))
        self._earlier = [*self._earlier[-50:], payload]
        if self.random.random() < 0.1:
            return self.random.choice(self._earlier)
        return payload if self.random.random() < self._unchanged else self.spoilt(payload)

    def spoilt(self, payload: bytes) -> bytes:
        ways = (self._flipped, self._cut, self._doubled, self._spliced, self._swapped)
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            payload = self.random.choice(ways)(payload)
        return payload

    def value(self, kind: typing.Any) -> typing.Any:
        """Of this type, with values that others may have too."""
        pick = self.random.choice
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return kind(**{field.name: self.value(field.type) for field in msgspec.structs.fields(kind)})
        match typing.get_origin(kind), typing.get_args(kind):
            case (typing.Annotated, (builtins.int, msgspec.Meta() as meta)):
                return min(max(pick(NUMBERS), meta.ge), (meta.lt or meta.le) - 1)
            case (typing.Annotated, (inner, _)):
                return self.value(inner)
            case (typing.Literal, options):
                return pick(options)
            case (types.UnionType | typing.Union, options):
                return self.value(pick(options))
            case (builtins.tuple, (item, last)) if last is ...:
                return tuple(self.value(item) for _ in range(pick((0, 1, 1, 2, 5))))
            case (builtins.tuple, items):
                return tuple(map(self.value, items))
            case (builtins.dict, (key, value)):
                return {self.value(key): self.value(value) for _ in range(pick((0, 0, 1, 2)))}
        return self._simple(kind)

    def _simple(self, kind: typing.Any) -> typing.Any:
        pick = self.random.choice
        simple = {
            int: NUMBERS,
            float: (0.0, 0.5, 1.0, 1e9),
            str: NAMES,
            bytes: (b"", b"\1\0\0\0", b"\1\0\0\0\2\0\0\0", b"\xff\xff\xff\xff", b"abc"),
            bool: (True, False),
            type(None): (None,),
            typing.Any: (1, "a", None, {"a": [1]}),
        }
        return pick(simple[kind])

    def _flipped(self, payload: bytes) -> bytes:
        spoilt = bytearray(payload)
        for _ in range(self.random.choice((1, 1, 2, 8)) if spoilt else 0):
            spoilt[self.random.randrange(len(spoilt))] = self.random.randrange(256)
        return bytes(spoilt)

    def _cut(self, payload: bytes) -> bytes:
        start, end = sorted(self.random.choices(range(len(payload) + 1), k=2))
        return self.random.choice((payload[:end], payload[start:], payload[:start] + payload[end:]))

    def _doubled(self, payload: bytes) -> bytes:
        start, end = sorted(self.random.choices(range(len(payload) + 1), k=2))
        return payload[:end] + payload[start:]

    def _spliced(self, payload: bytes) -> bytes:
        other = self.random.choice(self._earlier)
        return payload[: self.random.randrange(len(payload) + 1)] + other[self.random.randrange(len(other) + 1) :]

    def _swapped(self, payload: bytes) -> bytes:
        try:
            message = msgspec.msgpack.decode(payload)
        except (msgspec.MsgspecError, RecursionError):
            return payload
        return msgspec.msgpack.encode(self._with_swap(message))

    def _with_swap(self, value: typing.Any) -> typing.Any:
        if not isinstance(value, list) or not value or self.random.random() < 0.2:
            return self.random.choice(STRANGE)
        place = self.random.randrange(len(value))
        return [*value[:place], self._with_swap(value[place]), *value[place + 1 :]]
