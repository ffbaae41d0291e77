"""The configuration: frozen structs, filled once at start from YAML, environment and flags, in this order.

`load` is the only place that reads files and environment. An unknown key is an error that names the nearest known
one. A variable SAPWOOD_SECTION__KEY (SAPWOOD_GATEWAY__PORT=8080) sets section.key, SAPWOOD_RUN_DIR the run directory;
the value is read as YAML. Other variables with this prefix are not ours: orchestrators make some from service names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import msgspec
import yaml
from msgspec import Meta

from shared.choices import one_of
from shared.conflicts import conflicts
from shared.namespaces import MAX_WEIGHT
from shared.nearest import did_you_mean

ENV_PREFIX = "SAPWOOD_"

PositiveInt = Annotated[int, Meta(ge=1)]
PositiveFloat = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Weight = Annotated[int, Meta(ge=0, le=MAX_WEIGHT)]

Policy: TypeAlias = Literal["fcfs", "lpm", "dfs-weight", "lof", "priority"]
EvictionPolicy: TypeAlias = Literal["lru", "lfu", "priority"]


class ConfigError(Exception):
    """The configuration cannot be used; the message says which key and why."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class ModelConfig(Section, frozen=True):
    path: str = "bundled"  # a folder in Hugging Face format, a .gguf file, or the bundled model
    name: str | None = None  # what clients call it; by default the folder's or file's name
    cache_dir: str = "~/.cache/sapwood"  # where a GGUF file is converted to a model folder, once
    context_length: PositiveInt | None = None  # to serve less than the model's own limit
    prepared: str | None = None  # the prepared folder; found out by the launcher


class LinksConfig(Section, frozen=True):
    """`{run_dir}` stands for the run directory. `*_bind` is where the owner binds, if not where the others dial.

    Several gateways: each has a `front_bind` of its own, and `front` lists them with commas, or is a name for all.
    """

    front: str = "ipc://{run_dir}/front.sock"
    front_bind: str | None = None
    hub: str = "ipc://{run_dir}/hub.sock"
    hub_bind: str | None = None
    keys_dir: str | None = None  # made by `sapwood link-keys`; a process needs its own role's folder there, no other
    allow_plain_tcp: bool = False
    silence_s: PositiveFloat = 5.0


class KeyLimits(Section, frozen=True):
    """What one key may have. Null: what the default says; there, no limit."""

    requests_per_minute: PositiveInt | None = None
    tokens_per_minute: PositiveInt | None = None  # of prompts and outputs
    concurrent_requests: PositiveInt | None = None  # at one gateway
    cache_weight: Weight | None = None  # for how many it counts in the cache's quotas


class KeyLimitsConfig(Section, frozen=True):
    default: KeyLimits = KeyLimits()
    names: dict[str, KeyLimits] = {}  # by the name of the key
    storage: str = "async+memory://"  # where requests and tokens are counted; async+redis://HOST: for several gateways

    def of(self, name: str | None) -> KeyLimits:
        own = self.names.get(name or "", KeyLimits())
        fields = KeyLimits.__struct_fields__
        chosen = {field: getattr(own, field) for field in fields if getattr(own, field) is not None}
        return msgspec.structs.replace(self.default, **chosen)


class GatewayConfig(Section, frozen=True):
    host: str = "127.0.0.1"
    port: Port = 30000
    allow_open: bool = False  # without API keys, listen also where other machines reach it
    allowed_hosts: tuple[str, ...] = ()  # names it is called by, without API keys; see services.gateway.hosts
    api_keys: tuple[str, ...] = ()  # each "key", "name: key" or "name: sha256:digest"
    api_keys_file: str | None = None  # one such key a line
    admin_key: str | None = None
    admin_key_file: str | None = None  # a file that holds it, so that it stands in no environment
    key_limits: KeyLimitsConfig = KeyLimitsConfig()
    public_metrics: bool = False  # /metrics needs no key
    cors_origins: tuple[str, ...] | None = None  # of web pages that may use it; see services.gateway.cors
    enable_metrics: bool = True
    sglang_metrics: bool = False  # the main figures also under SGLang's names
    vllm_metrics: bool = False  # and under vLLM's, for the Kubernetes inference gateway
    show_cached_text: bool = False  # /cache shows the first words of each cached prefix
    max_connections: PositiveInt = 8192  # beyond it the longest idle one is closed
    read_timeout_s: PositiveFloat = 30.0  # for the whole of a request's headers, and for the whole of its body
    keepalive_timeout_s: PositiveFloat = 120.0  # of a connection on which nothing is asked
    max_body_bytes: PositiveInt = 8 * 1024 * 1024
    max_reading_bytes: PositiveInt = 128 * 1024 * 1024  # of all bodies that are being read at a time
    max_open_requests: PositiveInt = 4096
    max_choices: PositiveInt = 128  # of one request: prompts times samples
    max_stop_strings: PositiveInt = 16
    max_top_logprobs: PositiveInt = 20
    max_logit_bias: PositiveInt = 1024  # biased tokens in one request
    max_stored_responses: PositiveInt = 1024  # of one tenant, for /v1/responses: the least recently used go first
    max_stored_bytes: PositiveInt = 64 * 1024 * 1024  # of one tenant's stored responses
    max_attempts: PositiveInt = 8  # of one request in a row that bring no output before it is given up
    request_timeout_s: PositiveFloat = 3600.0  # the most; a request may have a shorter one of its own
    stall_timeout_s: PositiveFloat = 120.0  # a request without any progress for so long is submitted again
    slow_reader_timeout_s: PositiveFloat = 60.0  # a client that takes nothing of its answer for so long is cut off
    drain_timeout_s: PositiveFloat = 30.0


class TokenizerConfig(Section, frozen=True):
    replicas: PositiveInt = 1
    credits: PositiveInt = 16  # requests handed to one tokenizer at a time


class SchedulerConfig(Section, frozen=True):
    policy: Policy | None = None  # by default lpm: see chosen_policy
    step_budget_s: PositiveFloat = 0.25  # what one step may take, so that cancels and newcomers never wait long
    max_step_tokens: PositiveInt = 512  # the most prompt tokens in one step, whatever the time budget allows
    max_running_requests: PositiveInt = 64
    max_queued_requests: PositiveInt = 4096  # that wait: more are refused, see services.scheduler.admission
    max_queued_tokens: PositiveInt = 4 * 1024 * 1024  # of their prompts
    max_wait_s: PositiveFloat = 30.0  # a request that waited so long goes before what its policy prefers
    fair_quantum_tokens: PositiveInt = 4096  # what each tenant may compute before the others have their turn
    balance_tokens: Annotated[int, Meta(ge=0)] = 64  # what a request weighs at its executor, as a prefix elsewhere
    balance_requests: PositiveInt = 16  # an executor that has so many requests more than the idlest one, and
    balance_factor: Annotated[float, Meta(ge=1)] = 1.5  # so many times as many, is overloaded: prefixes do not count

    @property
    def chosen_policy(self) -> Policy:
        return self.policy or "lpm"


class ExecutorConfig(Section, frozen=True):
    module: str = "services.executor"
    replicas: PositiveInt = 1  # processes on this machine, each with the whole model and a pool of its own
    device: str = "cpu"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"  # of the arithmetic; float32: of all of it
    attention: Literal["auto", "reference", "cpu", "cuda"] = "auto"
    weights: Literal["auto", "float32", "float16", "native"] = "auto"  # how they are kept; native: as in the file
    kv_dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"  # of the KV pool
    speculation: Literal["auto", "off"] = "auto"  # drafts from the request's own text, where they pay
    threads: PositiveInt | None = None  # of the forward pass; by default this replica's part of the cores at hand
    max_batch: PositiveInt = 256  # requests that run at once; the scheduler may want fewer
    page_size: PositiveInt = 1
    max_total_tokens: PositiveInt | None = None  # size of the KV pool; by default what mem_fraction_static leaves
    # Of device memory, for weights and KV: by default 0.85, on CPUs 65,536 tokens at most.
    mem_fraction_static: Annotated[float, Meta(gt=0, lt=1)] | None = None
    disable_radix_cache: bool = False
    eviction_policy: EvictionPolicy | None = None  # by default lru
    cache_quota: Annotated[float, Meta(ge=0, le=1)] | None = None  # share of the pool kept for tenants, evenly; 0.5
    adaptive_cache: bool | None = None  # keep namespaces of little reuse in a cheap mode; by default yes
    script: str | None = None  # for a scripted executor: the file that says what it emits

    @property
    def chosen_dtype(self) -> Literal["float32", "bfloat16", "float16"]:
        return "float32" if self.dtype == "auto" else self.dtype

    @property
    def chosen_weights(self) -> Literal["auto", "float32", "float16", "native"]:
        """Whoever asks for float32 wants no weights that are shorter, unless they say so."""
        return "float32" if self.weights == "auto" and self.dtype == "float32" else self.weights

    @property
    def chosen_kv_dtype(self) -> Literal["auto", "float32", "float16", "bfloat16"]:
        return "float32" if self.kv_dtype == "auto" and self.dtype == "float32" else self.kv_dtype


class DetokenizerConfig(Section, frozen=True):
    replicas: PositiveInt = 1


class ConstraintsConfig(Section, frozen=True):
    """What a regex, a schema, a grammar or tools may ask of the server."""

    max_source_bytes: PositiveInt = 256 * 1024  # of a schema, a grammar, choices or tags
    max_pattern_bytes: PositiveInt = 16 * 1024  # of a regex, also within a schema
    max_repeat: PositiveInt = 10_000  # of a pattern: what its nested bounded repeats multiply to
    max_depth: PositiveInt = 64  # of a schema's nesting, and of a pattern's groups
    max_enum_values: PositiveInt = 4096  # in one enum, and choices
    max_tools: PositiveInt = 128
    max_whitespace: PositiveInt = 16  # between two JSON tokens, where it is flexible
    compile_cpu_s: PositiveFloat = 2.0  # of the process that a source goes through first
    compile_memory_bytes: PositiveInt = 512 * 1024 * 1024  # of the same
    cache_bytes: PositiveInt = 256 * 1024 * 1024  # for compiled grammars, what their lexers learn, and requests' states
    jump_forward: bool = True  # compute forced tokens together, not one by one


class LoggingConfig(Section, frozen=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"  # of stdout; auto: console on a terminal, else json
    directory: str | None = None  # where each process keeps its lines too, as JSON; null: see `kept_in`
    max_file_bytes: PositiveInt = 64 * 1024 * 1024  # of one file there; one older one is kept beside it
    step_every_s: PositiveFloat = 1.0  # how often scheduler and executors tell of their steps, while there are any
    tree_every_s: PositiveFloat = 10.0  # how often executors draw the cache's tree, if it has changed

    def kept_in(self, run_dir: str) -> Path | None:
        """By default in the run directory, if `sapwood serve` has said so; nowhere, if it is empty."""
        return Path(self.directory.replace("{run_dir}", run_dir)).expanduser() if self.directory else None


class TracingConfig(Section, frozen=True):
    endpoint: str | None = None  # of a collector, by OTLP over HTTP; the gateway tells it of each request
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0  # share of the requests whose client has named no trace


class SupervisorConfig(Section, frozen=True):
    start_timeout_s: PositiveFloat = 300.0
    hang_timeout_s: PositiveFloat = 30.0  # a child without progress for so long is killed and started again
    stop_timeout_s: PositiveFloat = 40.0


class Config(Section, frozen=True):
    run_dir: str = ""  # sockets, status files, logs, the resolved configuration; by default see shared.run_dir
    model: ModelConfig = ModelConfig()
    links: LinksConfig = LinksConfig()
    gateway: GatewayConfig = GatewayConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    executor: ExecutorConfig = ExecutorConfig()
    detokenizer: DetokenizerConfig = DetokenizerConfig()
    constraints: ConstraintsConfig = ConstraintsConfig()
    logging: LoggingConfig = LoggingConfig()
    tracing: TracingConfig = TracingConfig()
    supervisor: SupervisorConfig = SupervisorConfig()

    def endpoint(self, name: Literal["front", "front_bind", "hub", "hub_bind"]) -> str:
        """A link's endpoint, with the run directory filled in."""
        value: str | None = getattr(self.links, name)
        if value is None:
            value = getattr(self.links, name.removesuffix("_bind"))
        return value.replace("{run_dir}", self.run_dir)


def load(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """Read the configuration.

    Args:
        path: a YAML file; None for the defaults.
        environment: usually os.environ.
        overrides: dotted keys to values, from flags; they win.

    Raises:
        ConfigError: a file that cannot be read, an unknown key, a value of the wrong type or out of range, settings
            that exclude each other.
    """
    values: dict[str, Any] = {}
    layers = [_read_file(path) if path is not None else {}, _read_environment(environment or {}), overrides or {}]
    for layer in layers:
        for key, value in _flatten(layer):
            _set(values, key, value)
    try:
        config = msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        words, at, place = str(error).rpartition(" - at `$")
        raise ConfigError(f"configuration: {words}{one_of(words, Config, place)}{at}{place}") from error
    if found := list(conflicts(config)):
        raise ConfigError("configuration: " + "; ".join(found))
    return config


def dump(config: Config) -> bytes:
    """The resolved configuration, for the processes that a launcher starts."""
    return msgspec.yaml.encode(config)


def _read_file(path: str | Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected sections with keys")
    return content


def _read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in environment.items():
        if name.startswith(ENV_PREFIX) and ("__" in name or name == f"{ENV_PREFIX}RUN_DIR"):
            key = name.removeprefix(ENV_PREFIX).lower().replace("__", ".")
            try:
                found[key] = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise ConfigError(f"{name}: {error}") from error
    return found


def _flatten(layer: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in layer.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _set(values: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key, checking each part against the structs."""
    struct: Any = Config
    *sections, last = dotted.split(".")
    for section in sections:
        struct = _known(struct, section, dotted)
        values = _inner(values, section)
    _known(struct, last, dotted)
    values[last] = value


def _inner(values: dict[str, Any], section: str) -> dict[str, Any]:
    """The section's own values; a section that a file leaves empty has none."""
    inner = values.get(section)
    if not isinstance(inner, dict):
        inner = values[section] = {}
    return inner


def _known(struct: Any, name: str, dotted: str) -> Any:
    if get_origin(struct) is dict:
        return get_args(struct)[1]
    fields = {f.name: f.type for f in msgspec.structs.fields(struct)} if _is_section(struct) else {}
    if name in fields:
        return fields[name]
    raise ConfigError(f"unknown key {dotted!r}{did_you_mean(name, fields)}")


def _is_section(struct: Any) -> bool:
    return isinstance(struct, type) and issubclass(struct, Section)
