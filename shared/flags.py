"""Command-line flags of `sapwood serve` and `sapwood run`, turned into overrides of the configuration.

Names follow SGLang's where the meaning is the same. What a flag asks for and this version does not have is refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any, get_args

import yaml

from shared.config import ConfigError, EvictionPolicy, Policy

SERVICES = ("gateway", "tokenizer", "scheduler", "executor", "detokenizer")

OF_A_PLACE = frozenset({"--run-dir", "--port"})  # flags that say which server's processes are meant
OF_A_MODEL = frozenset(  # and those that say what its executors compute, and how
    {"--model-path", "--context-length", "--device", "--dtype", "--weights", "--kv-cache-dtype", "--attention-backend"}
    | {"--threads", "--log-level", "--log-format"}
)

_POLICIES = ", ".join(get_args(Policy))
_EVICTION_POLICIES = ", ".join(get_args(EvictionPolicy))

# flag, dotted key of the configuration, type, help
_VALUES: tuple[tuple[str, str, Any, str], ...] = (
    ("--model-path", "model.path", str, "a folder in Hugging Face format, a .gguf file, or 'bundled'"),
    ("--served-model-name", "model.name", str, "what clients call the model"),
    ("--context-length", "model.context_length", int, "serve less than the model's own limit, in tokens"),
    ("--host", "gateway.host", str, "address to listen on (127.0.0.1)"),
    ("--port", "gateway.port", int, "port to listen on (30000)"),
    ("--api-keys-file", "gateway.api_keys_file", str, "a file with one API key a line (see `sapwood keys`)"),
    ("--admin-api-key", "gateway.admin_key", str, "the key of the admin routes"),
    ("--admin-api-key-file", "gateway.admin_key_file", str, "a file that holds the key of the admin routes"),
    ("--log-level", "logging.level", str, "debug, info, warning or error"),
    ("--log-format", "logging.format", str, "json or console (console on a terminal, else json)"),
    ("--otlp-traces-endpoint", "tracing.endpoint", str, "an OpenTelemetry collector to send traces to, over HTTP"),
    ("--device", "executor.device", str, "cpu or cuda"),
    ("--dtype", "executor.dtype", str, "of the arithmetic: bfloat16, float16, or float32, then also of weights and KV"),
    ("--weights", "executor.weights", str, "float32, float16, or native: as the file stores them (where possible)"),
    ("--kv-cache-dtype", "executor.kv_dtype", str, "of the KV pool: float32, float16 or bfloat16"),
    ("--attention-backend", "executor.attention", str, "auto, reference, cpu or cuda"),
    ("--threads", "executor.threads", int, "of the forward pass (this executor's part of the cores)"),
    ("--page-size", "executor.page_size", int, "tokens in a page of the KV pool"),
    (
        "--mem-fraction-static",
        "executor.mem_fraction_static",
        float,
        "share of device memory for weights and KV (0.85)",
    ),
    ("--max-total-tokens", "executor.max_total_tokens", int, "size of the KV pool in tokens, instead of the share"),
    ("--radix-eviction-policy", "executor.eviction_policy", str, f"what goes first: {_EVICTION_POLICIES} (lru)"),
    ("--cache-quota", "executor.cache_quota", float, "share of the pool kept for tenants, evenly (0.5); 0: none"),
    ("--executors", "executor.replicas", int, "executor processes, each with the whole model"),
    ("--dp-size", "executor.replicas", int, "the same by SGLang's name"),
    ("--schedule-policy", "scheduler.policy", str, f"who runs next: {_POLICIES} (lpm)"),
    ("--chunked-prefill-size", "scheduler.max_step_tokens", int, "the most prompt tokens in one step"),
    ("--max-running-requests", "scheduler.max_running_requests", int, "requests that hold KV at once"),
    ("--tokenizers", "tokenizer.replicas", int, "tokenizer processes"),
    ("--detokenizers", "detokenizer.replicas", int, "detokenizer processes"),
    ("--run-dir", "run_dir", str, "where sockets and logs lie (in ~/.local/state/sapwood, one for each port)"),
)
_SWITCHES: tuple[tuple[str, str, bool | str, str], ...] = (
    ("--disable-radix-cache", "executor.disable_radix_cache", True, "compute every prompt anew"),
    ("--disable-adaptive-cache", "executor.adaptive_cache", False, "no cheap mode for namespaces of little reuse"),
    ("--disable-speculation", "executor.speculation", "off", "no drafts from a request's own text"),
    ("--disable-jump-forward", "constraints.jump_forward", False, "forced tokens are computed one by one"),
    ("--sglang-metrics", "gateway.sglang_metrics", True, "the main figures also under SGLang's names"),
    ("--vllm-metrics", "gateway.vllm_metrics", True, "the main figures also under vLLM's names"),
    ("--show-cached-text", "gateway.show_cached_text", True, "/cache shows the first words of each cached prefix"),
    ("--allow-open", "gateway.allow_open", True, "listen where other machines reach it, without API keys"),
    ("--public-metrics", "gateway.public_metrics", True, "/metrics needs no key"),
    ("--enable-metrics", "gateway.enable_metrics", True, "serve /metrics (on by default)"),
    ("--disable-metrics", "gateway.enable_metrics", False, "do not serve /metrics"),
    ("--allow-plain-tcp", "links.allow_plain_tcp", True, "tcp links beyond this machine without keys"),
)


def add_arguments(parser: argparse.ArgumentParser, shown: Collection[str] | None = None) -> None:
    """`shown`: the flags that matter to this command; the others are taken, and not listed. By default all matter."""

    if shown is not None:
        parser.usage = f"{parser.prog} [OPTION …]"

    def listed(flag: str, text: str) -> str:
        return text if shown is None or flag in shown else argparse.SUPPRESS

    for flag, key, kind, text in _VALUES:
        parser.add_argument(flag, dest=key, type=kind, help=listed(flag, text))
    groups = {key: parser.add_mutually_exclusive_group() for key in dict.fromkeys(key for _, key, *_ in _SWITCHES)}
    for flag, key, value, text in _SWITCHES:
        groups[key].add_argument(flag, dest=key, action="store_const", const=value, help=listed(flag, text))
    parser.add_argument(
        "--api-key", action="append", default=[], help=listed("--api-key", "an API key; may be given several times")
    )
    parser.add_argument(
        "--tp", "--tensor-parallel-size", type=int, default=1, help=listed("--tp", "devices that share one model")
    )
    parser.add_argument(
        "--enable-flashinfer",
        action="store_true",
        help=listed("--enable-flashinfer", "FlashInfer kernels (needs CUDA)"),
    )
    parser.add_argument("--config", help="a YAML file; flags win over it")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any key of the configuration")


def overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """Dotted keys to values, for `shared.config.load`. Raises ConfigError for what cannot be had."""
    _refuse_what_is_not_built(arguments)
    keys = [key for _, key, *_ in _VALUES] + [key for _, key, *_ in _SWITCHES]
    found = {key: value for key in keys if (value := getattr(arguments, key)) is not None}
    if arguments.api_key:
        found["gateway.api_keys"] = arguments.api_key
    for setting in arguments.set:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: expected KEY=VALUE")
        try:
            found[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {setting}: {error}") from error
    return found


def named(message: str) -> str:
    """The message, with the flag beside each key that it names as a place in the configuration."""
    for flag, key, *_ in (*_VALUES, *_SWITCHES):  # of two flags the first one
        message = message.replace(f"`$.{key}`", f"{key} ({flag})")
    return message


def _refuse_what_is_not_built(arguments: argparse.Namespace) -> None:
    if arguments.tp != 1:
        raise ConfigError(f"--tp {arguments.tp}: tensor parallelism is not available in this version; use --tp 1")
    if arguments.enable_flashinfer:
        if not Path("/dev/nvidiactl").exists():
            raise ConfigError("--enable-flashinfer: there is no CUDA device on this machine")
        raise ConfigError("--enable-flashinfer: FlashInfer kernels are not available in this version")
