"""Which settings exclude each other, and why: a pure look at a whole configuration.

Only what was asked for counts: a key that is null leaves the choice to whoever uses it. Knows the keys and their
flags, no file, no machine and no model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.addresses import is_loopback
from shared.exposure import has_keys

if TYPE_CHECKING:
    from shared.config import Config

CACHE_POLICIES = ("lpm", "dfs-weight")  # they order by what is cached

NO_CACHE = "executor.disable_radix_cache (--disable-radix-cache)"
POOL_TOKENS = "executor.max_total_tokens (--max-total-tokens)"
PAGE = "executor.page_size (--page-size)"
SHOWN_TEXT = "gateway.show_cached_text (--show-cached-text)"


def conflicts(config: Config) -> Iterator[str]:
    """Each as a sentence that names both keys with their flags."""
    yield from _without_a_cache(config)
    yield from _sizes(config)
    yield from _replicas(config)
    yield from _views(config)
    yield from _key_limits(config)
    yield from _links(config)


def _links(config: Config) -> Iterator[str]:
    if config.links.keys_dir is not None and config.links.allow_plain_tcp:
        plain = "links.allow_plain_tcp (--allow-plain-tcp)"
        yield f"links.keys_dir encrypts every tcp link, and {plain} is for links without keys: give one of them"


def _without_a_cache(config: Config) -> Iterator[str]:
    executor, policy = config.executor, config.scheduler.policy
    if not executor.disable_radix_cache:
        return
    if policy in CACHE_POLICIES:
        yield f"scheduler.policy (--schedule-policy) {policy} orders by the cache that {NO_CACHE} turns off"
    for key, value in (
        ("executor.eviction_policy (--radix-eviction-policy)", executor.eviction_policy),
        ("executor.cache_quota (--cache-quota)", executor.cache_quota),
        ("executor.adaptive_cache", executor.adaptive_cache or None),
    ):
        if value is not None:
            yield f"{key} is about the cache that {NO_CACHE} turns off"


def _sizes(config: Config) -> Iterator[str]:
    executor = config.executor
    if executor.max_total_tokens is not None:
        if executor.mem_fraction_static is not None:
            fraction = "executor.mem_fraction_static (--mem-fraction-static)"
            yield f"{POOL_TOKENS} and {fraction} both say how large the KV pool is: give one of them"
        if executor.page_size > executor.max_total_tokens:
            pool = f"{POOL_TOKENS} {executor.max_total_tokens}"
            yield f"{PAGE} {executor.page_size} is larger than the whole pool, {pool}"


def _replicas(config: Config) -> Iterator[str]:
    executor = config.executor
    is_sized = executor.max_total_tokens is not None or executor.mem_fraction_static is not None
    if executor.replicas > 1 and executor.device.startswith("cuda") and not is_sized:
        replicas = f"executor.replicas (--executors) {executor.replicas}"
        yield (
            f"{replicas} would each take most of the memory of one {executor.device}: say how much with {POOL_TOKENS} "
            "or executor.mem_fraction_static (--mem-fraction-static)"
        )


def _views(config: Config) -> Iterator[str]:
    gateway = config.gateway
    for name, shown in (("sglang", gateway.sglang_metrics), ("vllm", gateway.vllm_metrics)):
        if shown and not gateway.enable_metrics:
            needing = f"gateway.{name}_metrics (--{name}-metrics)"
            yield f"{needing} needs gateway.enable_metrics, which is off (--disable-metrics)"
    is_private = is_loopback(gateway.host) and not has_keys(gateway)
    if gateway.show_cached_text and gateway.admin_key is None and gateway.admin_key_file is None and not is_private:
        yield (
            f"{SHOWN_TEXT} needs gateway.admin_key (--admin-api-key), unless the server has no gateway.api_keys and a "
            "gateway.host that only this machine reaches: nobody else may see the text of others"
        )


def _key_limits(config: Config) -> Iterator[str]:
    gateway = config.gateway
    limits = gateway.key_limits
    if (limits.names or limits.default != type(limits.default)()) and not has_keys(gateway):
        yield "gateway.key_limits is about API keys, and there are none: gateway.api_keys (--api-keys-file, --api-key)"
