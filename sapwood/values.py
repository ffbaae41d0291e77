"""What `gen` gives a program: something to attach, which behaves as the value it will be.

The first `+=` attaches it; used as a value before that (compared, printed, indexed, counted with) it is attached where
the program stands, and waited for. Joined to text it is not: that makes an expression, to be attached.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from sapwood.deferred import Deferred, Outcome
from sapwood.expressions import Expression, Joinable

if TYPE_CHECKING:
    from sapwood.state import State

Operator: TypeAlias = "Callable[[Value, Any], Any]"


def _both(operation: Callable[[Any, Any], Any]) -> tuple[Operator, Operator]:
    """The operator with the value on its left, and with it on its right."""

    def on_the_left(self: Value, other: Any) -> Any:
        return operation(self._value(), other)

    def on_the_right(self: Value, other: Any) -> Any:
        return operation(other, self._value())

    return on_the_left, on_the_right


class Value(Joinable):
    """Args:
    home: the state that it is attached to if nothing else is said.
    """

    _deferred: Deferred
    _home: State

    def __init__(self, deferred: Deferred, home: State) -> None:
        object.__setattr__(self, "_deferred", deferred)
        object.__setattr__(self, "_home", home)

    def _outcome(self) -> Outcome:
        self._home._settle(self)
        return self._home._read(self._deferred)

    def _value(self) -> Any:
        return self._outcome().value

    def __add__(self, other: Any) -> Any:
        if self._joins(other):
            return Expression((self,)) + other
        return self._value() + other

    def __radd__(self, other: Any) -> Any:
        if self._joins(other):
            return other + Expression((self,))
        return other + self._value()

    def _joins(self, other: Any) -> bool:
        """Once it is there, it is what it is."""
        return isinstance(other, str | Joinable) and not self._deferred.is_attached

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy, pickle and the like ask for what objects may have
            raise AttributeError(name)
        return getattr(self._value(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._value(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._value(), name)

    def __repr__(self) -> str:
        return repr(self._value()) if self._deferred.is_done else f"<{self._deferred.work.kind} {self._deferred.name}>"

    def __str__(self) -> str:
        outcome = self._outcome()
        return outcome.value if isinstance(outcome.value, str) else outcome.text

    def __format__(self, spec: str) -> str:
        return format(self._value(), spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        return bool(self._value() == (other._value() if isinstance(other, Value) else other))

    def __lt__(self, other: Any) -> bool:
        return bool(self._value() < other)

    def __le__(self, other: Any) -> bool:
        return bool(self._value() <= other)

    def __gt__(self, other: Any) -> bool:
        return bool(self._value() > other)

    def __ge__(self, other: Any) -> bool:
        return bool(self._value() >= other)

    def __hash__(self) -> int:
        return hash(self._value())

    def __bool__(self) -> bool:
        return bool(self._value())

    def __int__(self) -> int:
        return int(self._value())

    def __index__(self) -> int:
        value = self._value()
        if not isinstance(value, int):
            raise TypeError(f"{self._deferred.name} is no integer")
        return value

    def __float__(self) -> float:
        return float(self._value())

    def __len__(self) -> int:
        return len(self._value())

    def __contains__(self, item: object) -> bool:
        return item in self._value()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._value())

    def __getitem__(self, key: Any) -> Any:
        return self._value()[key]

    def __setitem__(self, key: Any, item: Any) -> None:
        self._value()[key] = item

    def __delitem__(self, key: Any) -> None:
        del self._value()[key]

    __sub__, __rsub__ = _both(operator.sub)
    __mul__, __rmul__ = _both(operator.mul)
    __matmul__, __rmatmul__ = _both(operator.matmul)
    __truediv__, __rtruediv__ = _both(operator.truediv)
    __floordiv__, __rfloordiv__ = _both(operator.floordiv)
    __mod__, __rmod__ = _both(operator.mod)
    __divmod__, __rdivmod__ = _both(divmod)
    __pow__, __rpow__ = _both(operator.pow)
    __lshift__, __rlshift__ = _both(operator.lshift)
    __rshift__, __rrshift__ = _both(operator.rshift)
    __and__, __rand__ = _both(operator.and_)
    __or__, __ror__ = _both(operator.or_)
    __xor__, __rxor__ = _both(operator.xor)

    def __neg__(self) -> Any:
        return -self._value()

    def __pos__(self) -> Any:
        return +self._value()

    def __invert__(self) -> Any:
        return ~self._value()

    def __abs__(self) -> Any:
        return abs(self._value())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._value(), digits)
