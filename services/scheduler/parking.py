"""The requests that wait at one executor until it has compiled their constraints. They hold nothing, and nobody back.

Knows who wants which constraint, and when it was asked for. Does not know what becomes of one that is compiled. One
question goes out for all of a tenant that want the same, since its place in the executor's line is the tenant's; an
answer that does not come is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared import wire
from shared.invariant import require

if TYPE_CHECKING:
    from services.scheduler.request import Request

ASK_AGAIN_S = 30.0  # far longer than any constraint may take


@dataclass(slots=True)
class Want:
    """A constraint, and who waits for it, in the order in which they came."""

    constraint: wire.Constraint
    requests: dict[Request, None] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)  # when it was asked for, by tenant


class Parking:
    def __init__(self) -> None:
        self._wants: dict[str, Want] = {}  # by the constraint's key
        self._unasked: list[tuple[str, str]] = []  # key, tenant
        self._keys: dict[Request, str] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._keys)

    def __contains__(self, request: Request) -> bool:
        return request in self._keys

    def requests(self, key: str, tenant: str | None) -> list[Request]:
        """Those of the tenant, or of all, that wait for this constraint."""
        waiting = self._wants[key].requests if key in self._wants else ()
        return [request for request in waiting if tenant in (None, request.tenant)]

    def asked(self) -> Iterator[Request]:
        """Those whose constraint the executor has in hand."""
        for want in self._wants.values():
            yield from (request for request in want.requests if request.tenant in want.asked_s)

    def add(self, request: Request) -> None:
        """Raises ValueError if it has no constraint, or waits here already."""
        key, constraint = request.constraint_key, request.submit.constraint
        if key is None or constraint is None or request in self._keys:
            raise ValueError(f"number {request.order} by arrival has nothing to wait for, or does so already")
        if key not in self._wants:
            self._wants[key] = Want(constraint)
        if request.tenant not in self._wants[key].asked_s:
            self._unasked.append((key, request.tenant))
        self._wants[key].requests[request] = None
        self._keys[request] = key

    def remove(self, request: Request) -> None:
        """Raises KeyError if it is not here."""
        key = self._keys.pop(request)
        want = self._wants[key]
        del want.requests[request]
        if not want.requests:
            del self._wants[key]

    def ask_again(self, now_s: float) -> None:
        """For what was asked long ago."""
        for key, want in self._wants.items():
            overdue = [tenant for tenant, asked_s in want.asked_s.items() if now_s - asked_s >= ASK_AGAIN_S]
            for tenant in overdue:
                del want.asked_s[tenant]
                if any(request.tenant == tenant for request in want.requests):
                    self._unasked.append((key, tenant))

    def take_questions(self, now_s: float) -> Iterator[wire.Compile]:
        """What the executor is to be asked now."""
        unasked, self._unasked = self._unasked, []
        for key, tenant in unasked:
            want = self._wants.get(key)
            if want is not None and tenant not in want.asked_s:
                want.asked_s[tenant] = now_s
                yield wire.Compile(want.constraint, tenant)

    def check_integrity(self) -> None:
        """Raises BrokenInvariant with what is wrong, once all questions are taken."""
        require(not self._unasked, "a constraint was not asked for")
        require(all(want.requests for want in self._wants.values()), "a constraint is wanted by nobody")
        for want in self._wants.values():
            tenants = {request.tenant for request in want.requests}
            require(tenants <= want.asked_s.keys(), "a question was forgotten")
        parked = [(request, key) for key, want in self._wants.items() for request in want.requests]
        require(len(parked) == len(self._keys) and dict(parked) == self._keys, "a request is parked wrongly")
        for request, key in parked:
            require(request.constraint_key == key, f"{request.key} waits for another's constraint")
