"""What a key may still have: requests and tokens a minute, and requests at a time.

A request is counted when it is admitted, as one, however many generations it has. Its tokens are counted when it ends,
for how many they are is not known before: so a key is refused while its minute is used up, and may use more than its
minute has by what it had open then, which counts, too. Knows callers and callbacks, no HTTP but its headers' names.

Counts of requests and tokens can be shared by gateways. When they cannot be reached, everybody is admitted: limits are
for fairness, and a server that stands still is fair to nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import cast

from limits.aio.storage import Storage
from limits.aio.storage.base import SlidingWindowCounterSupport
from limits.errors import ConfigurationError, StorageError
from limits.storage import storage_from_string

from services.gateway.errors import ApiError
from services.gateway.keyring import Caller
from services.gateway.rate_window import Rate, Window
from shared import logging, wire
from shared.config import ConfigError

BUSY_RETRY_S = 1.0  # nobody knows when a request will end
STORAGE_TIMEOUT_S = 0.5
REDIS_CLIENT = "redispy"


class Permit:
    """Of one request. Whoever has it ends it, once.

    Args:
        headers: what the client is told of its limits.
    """

    def __init__(self, allowances: Allowances, caller: Caller, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self._allowances = allowances
        self._caller = caller

    def end(self, used_tokens: int) -> None:
        self._allowances.ended(self._caller, used_tokens)


class Allowances:
    """Raises ConfigError for a storage that cannot be used."""

    def __init__(self, storage: str | SlidingWindowCounterSupport) -> None:
        counts = _open(storage) if isinstance(storage, str) else storage
        self._requests = Rate(counts, "requests")
        self._tokens = Rate(counts, "tokens")
        self._open: Counter[str] = Counter()  # requests, by tenant
        self._adding: set[asyncio.Task[None]] = set()  # the loop keeps no task alive
        self._is_away = False
        self._log = logging.get()

    async def admit(self, caller: Caller) -> Permit:
        """Raises LimitReached. What is refused is not counted."""
        limit = caller.limits.concurrent_requests
        if limit is not None and self._open[caller.tenant] >= limit:
            raise LimitReached(f"{limit} requests at a time", BUSY_RETRY_S, {})
        self._open[caller.tenant] += 1
        try:
            headers = await self._rates(caller)
        except BaseException:
            self._closed(caller)
            raise
        return Permit(self, caller, headers)

    def ended(self, caller: Caller, used_tokens: int) -> None:
        self._closed(caller)
        if used_tokens and caller.limits.tokens_per_minute is not None:
            task = asyncio.create_task(self._add(caller.tenant, used_tokens))
            self._adding.add(task)
            task.add_done_callback(self._adding.discard)

    def _closed(self, caller: Caller) -> None:
        self._open[caller.tenant] -= 1
        if not self._open[caller.tenant]:
            del self._open[caller.tenant]

    async def _rates(self, caller: Caller) -> dict[str, str]:
        try:
            async with asyncio.timeout(STORAGE_TIMEOUT_S):
                headers = await self._check(caller)
        except (StorageError, TimeoutError) as error:
            self._tell_away(error)
            return {}
        self._is_away = False
        return headers

    async def _check(self, caller: Caller) -> dict[str, str]:
        """Tokens first: a request is counted only where it will be served."""
        limits, tenant, headers = caller.limits, caller.tenant, dict[str, str]()
        if limits.tokens_per_minute is not None:
            tokens = await self._tokens.window(tenant, limits.tokens_per_minute)
            headers |= _headers("tokens", tokens)
            if not tokens.remaining:
                raise LimitReached(f"{limits.tokens_per_minute} tokens a minute", tokens.room_in_s, headers)
        if limits.requests_per_minute is not None:
            has_room = await self._requests.take(tenant, limits.requests_per_minute)
            requests = await self._requests.window(tenant, limits.requests_per_minute)
            headers |= _headers("requests", requests)
            if not has_room:
                raise LimitReached(f"{limits.requests_per_minute} requests a minute", requests.room_in_s, headers)
        return headers

    async def _add(self, tenant: str, used_tokens: int) -> None:
        try:
            async with asyncio.timeout(STORAGE_TIMEOUT_S):
                await self._tokens.add(tenant, used_tokens)
        except (StorageError, TimeoutError) as error:
            self._tell_away(error)

    def _tell_away(self, error: StorageError | TimeoutError) -> None:
        """Once, until they have been reached again."""
        if not self._is_away:
            reason = error.storage_error if isinstance(error, StorageError) else error
            self._log.warning("key_limits_away", reason=type(reason).__name__)
        self._is_away = True


class LimitReached(ApiError):
    def __init__(self, what: str, retry_after_s: float, headers: Mapping[str, str]) -> None:
        message = f"this key may have {what}; try again later"
        super().__init__(wire.Error(message, "rate_limit_exceeded", status=429, retry_after_s=retry_after_s))
        self.headers = headers


def _open(url: str) -> SlidingWindowCounterSupport:
    options = {"implementation": REDIS_CLIENT} if url.startswith("async+redis") else {}
    try:
        storage = storage_from_string(url, wrap_exceptions=True, **options)
    except (ConfigurationError, TypeError, ValueError) as error:
        raise ConfigError(f"gateway.key_limits.storage: {error}") from error
    if not isinstance(storage, Storage) or not isinstance(storage, SlidingWindowCounterSupport):
        raise ConfigError("gateway.key_limits.storage: expected async+memory:// or async+redis://HOST:PORT")
    return cast(SlidingWindowCounterSupport, storage)


def _headers(what: str, window: Window) -> dict[str, str]:
    """As OpenAI has them."""
    return {
        f"x-ratelimit-limit-{what}": str(window.limit),
        f"x-ratelimit-remaining-{what}": str(window.remaining),
        f"x-ratelimit-reset-{what}": _duration(window.empty_in_s),
    }


def _duration(seconds: float) -> str:
    """Such as 250ms, 7.2s or 1m30s."""
    milliseconds = round(1000 * seconds)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"
