"""Whether a request is taken in at all, and for how many tokens. Early and clear, before anything is spent on it.

What waits is bounded in requests and in tokens, and tenants share the room (`shared/fair_room.py`). A server without
keys has one tenant, which has it all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from services.scheduler.backlog import NOTHING, Load, total
from shared import fair_room, wire
from shared.config import SchedulerConfig
from shared.drain_rate import DrainRate
from shared.namespaces import tenant_of

RETRY_AFTER_S = 1.0
LEAST_RETRY_AFTER_S, MOST_RETRY_AFTER_S = 0.001, 60.0
DOUBT = 2.0  # the order of the queue and its pace change: a wait is not known to be too long before it is so many times

DEADLINE_EXCEEDED = wire.Error("the request did not end before its deadline", "deadline_exceeded", status=504)
POISONED = wire.Error("the executor died twice while it worked on this request alone", "poisoned_request", status=500)
DRAINING = wire.Error("the server is shutting down", "shutting_down", status=503, retry_after_s=RETRY_AFTER_S)


def refusal(
    submit: wire.Submit,
    waiting: Mapping[str, Load],
    drain: DrainRate,
    config: SchedulerConfig,
    *,
    draining: bool,
    now_s: float,
) -> wire.Error | None:
    """Why the request is not taken in. One that was before (attempt > 1) passes the queue's bounds and draining.

    Args:
        waiting: what does, by tenant.
        drain: how fast requests have been starting.
    """
    if submit.time_left_s is not None and submit.time_left_s <= 0:
        return DEADLINE_EXCEEDED
    if submit.attempt > 1:
        return None
    if draining:
        return DRAINING
    never = _never_fits(submit, config)
    return never or _no_room(submit, waiting, drain, config, now_s) or _too_late(submit, waiting, drain, now_s)


def _never_fits(submit: wire.Submit, config: SchedulerConfig) -> wire.Error | None:
    """If the last sample of the prompt has no room behind the others."""
    tokens, bound = len(submit.prompt_token_ids), config.max_queued_tokens
    others = (submit.samples - 1) * tokens
    own = others if tenant_of(submit.namespace) else 0
    if not others or not fair_room.excess(tokens, own=own, free=bound - others):
        return None
    message = f"{submit.samples} outputs of a prompt of {tokens} tokens: no more than {bound} tokens may wait at once"
    return wire.Error(message, "invalid_value", param="samples")


def _no_room(
    submit: wire.Submit, waiting: Mapping[str, Load], drain: DrainRate, config: SchedulerConfig, now_s: float
) -> wire.Error | None:
    tenant, in_all = tenant_of(submit.namespace), total(waiting)
    own, turns = waiting.get(tenant, NOTHING) if tenant else NOTHING, _turns(submit, waiting)
    requests = _Room("requests", "max_queued_requests", config.max_queued_requests, in_all.requests, own.requests)
    if excess := requests.excess(1):
        return _overloaded(requests.words(1), drain.about_s(now_s, requests=excess * turns))
    tokens = _Room("prompt tokens", "max_queued_tokens", config.max_queued_tokens, in_all.tokens, own.tokens)
    wanted = len(submit.prompt_token_ids)
    if waiting and (excess := tokens.excess(wanted)):  # where nobody waits it would never be taken in
        return _overloaded(tokens.words(wanted), drain.about_s(now_s, tokens=excess * turns))
    return None


class _Room(NamedTuple):
    """Under one bound."""

    what: str
    setting: str
    bound: int
    waiting: int
    own: int  # of these: the tenant's, 0 if it need not share

    def excess(self, wanted: int) -> int:
        return fair_room.excess(wanted, own=self.own, free=self.bound - self.waiting)

    def words(self, wanted: int) -> str:
        """Why so many have no room."""
        words = f"{self.waiting} {self.what} are waiting already, of {self.bound} that may (scheduler.{self.setting})"
        is_share = self.waiting + wanted <= self.bound
        return f"{words}; {self.own} are of this key, whose share is taken" if is_share else words


def _too_late(submit: wire.Submit, waiting: Mapping[str, Load], drain: DrainRate, now_s: float) -> wire.Error | None:
    """If it would have to wait for longer than it has. Who has a priority may not have to wait."""
    own = waiting.get(tenant_of(submit.namespace), NOTHING)
    if submit.time_left_s is None or submit.priority > 0 or not own.requests:
        return None
    wait_s = drain.wait_s(now_s, requests=own.requests * _turns(submit, waiting))
    if wait_s is None or wait_s <= DOUBT * submit.time_left_s:
        return None
    message = f"about {wait_s:.0f} s to wait, which is more than the {submit.time_left_s:.0f} s that are left"
    return wire.Error(message, "deadline_unreachable", status=429, retry_after_s=_bounded(wait_s - submit.time_left_s))


def _turns(submit: wire.Submit, waiting: Mapping[str, Load]) -> int:
    """Tenants that take turns."""
    return len(waiting.keys() | {tenant_of(submit.namespace)})


def _overloaded(reason: str, wait_s: float) -> wire.Error:
    message = f"{reason}; try again later"
    return wire.Error(message, "overloaded", status=429, retry_after_s=_bounded(wait_s))


def _bounded(retry_after_s: float) -> float:
    return min(max(retry_after_s, LEAST_RETRY_AFTER_S), MOST_RETRY_AFTER_S)


def clamp(prompt_tokens: int, output_tokens: int, max_new_tokens: int, *, limit_tokens: int) -> int | wire.Error:
    """The output that leaves the request finishable if it runs alone, where one request may hold limit_tokens."""
    if prompt_tokens >= limit_tokens or prompt_tokens + output_tokens > limit_tokens:
        message = f"the prompt has {prompt_tokens} tokens, and there is room for {limit_tokens}, answer included"
        return wire.Error(message, "context_length_exceeded", param="prompt")
    return min(max_new_tokens, limit_tokens - prompt_tokens)
