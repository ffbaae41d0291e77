"""Who waits for a tokenizer: tenants take turns, and a tenant's own requests go in the order in which they came.

So a tenant that asks for much at once makes others wait for one of its prompts each, and not for all of them.
"""

from __future__ import annotations


class Turns:
    def __init__(self) -> None:
        self._lines: dict[str, dict[str, None]] = {}  # by tenant, in the order of their turns; no line is empty

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, tenant: str, request_id: str) -> None:
        self._lines.setdefault(tenant, {})[request_id] = None

    def remove(self, tenant: str, request_id: str) -> None:
        """If it waits."""
        line = self._lines.get(tenant)
        if line is not None:
            line.pop(request_id, None)
            if not line:
                del self._lines[tenant]

    def next(self) -> str:
        """Whose turn it is. Raises StopIteration if nobody waits."""
        return next(iter(next(iter(self._lines.values()))))

    def take(self) -> str:
        """Whose turn it is, who no longer waits; the other tenants come before its tenant's next one."""
        tenant, request_id = next(iter(self._lines)), self.next()
        line = self._lines.pop(tenant)
        del line[request_id]
        if line:
            self._lines[tenant] = line
        return request_id
