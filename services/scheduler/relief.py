"""Who gives way when there is no room for all that run.

One of them never does, so that it certainly ends: of each tenant's most senior requests the one that came first. Of the
others, the tenant that holds most gives up its most junior request.
"""

from __future__ import annotations

from collections.abc import Collection

from services.scheduler.lane import Lane
from services.scheduler.policy import seniority


def gives_way(running: Collection[Lane]) -> Lane | None:
    """None if there is nobody to give way to."""
    if len(running) < 2:
        return None
    by_tenant: dict[str, list[Lane]] = {}
    for lane in sorted(running, key=seniority):
        by_tenant.setdefault(lane.request.tenant, []).append(lane)
    safe = min((lanes[0] for lanes in by_tenant.values()), key=lambda lane: lane.order)
    by_tenant[safe.request.tenant].remove(safe)
    heaviest = max(by_tenant.values(), key=lambda lanes: (bool(lanes), sum(lane.context_tokens() for lane in lanes)))
    return heaviest[-1]
