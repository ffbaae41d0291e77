"""Every message that crosses a process boundary, and the unions that each link may carry.

Knows the shapes, the limits and the decoders. Knows nothing of sockets, queues or policy.

All structs are frozen and array-like (msgspec does not mix array-like and keyed structs in one union, and the
hot links need the small form), so fields are added at the end, with a default, and `PROTOCOL` goes up when that is
not enough. Names are the field's own; units stand in the names (`_s` seconds, `_tokens` tokens).

A request is named by (gateway, request_id): request ids are made by the gateway, never by a client. `attempt` counts
its submissions from 1; the highest attempt wins everywhere.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

PROTOCOL = 5
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # that anybody may send at once; `max_bytes` is what a speaker may

Role: TypeAlias = Literal["gateway", "tokenizer", "scheduler", "executor", "detokenizer"]
FinishReason: TypeAlias = Literal["stop", "length", "abort", "error"]
ConstraintKind: TypeAlias = Literal["regex", "json_schema", "json_object", "ebnf", "choices", "structural_tag"]
AbortReason: TypeAlias = Literal["client", "stop_string", "deadline", "stale", "gateway_gone"]

# What a number can be at all is a part of its type, so that no peer can make anybody compute with nonsense.
Natural: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, lt=2**53)]
TokenId: TypeAlias = Annotated[int, Meta(ge=0, lt=2**31)]
Finite: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]  # and a number
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
Name: TypeAlias = Annotated[str, Meta(max_length=128, pattern="^[ -~]*$")]  # for people, and fit for a log
TraceId: TypeAlias = Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")]  # of the trace that a client has begun, for logs


class Wire(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of parts that are carried inside messages."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of what is sent on its own; tagged with the class name."""


# --- parts -----------------------------------------------------------------------------------------------------------


class Error(Wire, frozen=True):
    """A refusal or failure in words for the client. `code` and `param` follow OpenAI's error object."""

    message: str
    code: str = "invalid_request"
    param: str | None = None
    status: Annotated[int, Meta(ge=400, le=599)] = 400  # the HTTP status that the gateway answers with
    retry_after_s: Seconds | None = None


class Sampling(Wire, frozen=True):
    """How to choose tokens. The gateway has validated ranges; the tokenizer checks ids against the vocabulary."""

    seed: int  # always fixed by the gateway, so that a resumed request draws the same numbers
    temperature: Finite = 1.0  # 0 is greedy
    top_k: Natural | None = None
    top_p: Finite = 1.0
    min_p: Finite = 0.0
    repetition_penalty: Finite = 1.0
    presence_penalty: Finite = 0.0
    frequency_penalty: Finite = 0.0
    logit_bias: dict[TokenId, Finite] = {}
    min_new_tokens: Natural = 0
    stop_token_ids: tuple[TokenId, ...] = ()
    ignore_eos: bool = False
    logprobs: bool = False
    top_logprobs: Natural = 0
    prompt_logprobs_from: Natural | None = None  # log-probabilities of prompt tokens from this position on


class TextOptions(Wire, frozen=True):
    """What the detokenizer does with the ids."""

    stop: tuple[str, ...] = ()
    skip_special_tokens: bool = True
    include_stop: bool = False  # leave the stop string, or what the pattern matched, in the text
    stop_regex: tuple[str, ...] = ()  # `shared.stop_pattern` reads them


class Constraint(Wire, frozen=True):
    """What the output must be. Each kind's language is described in `services.executor.constraint.source`."""

    kind: ConstraintKind
    source: str  # the pattern, the grammar, or JSON: a schema, an array of choices, structural tags; "" for json_object
    strict: bool = True  # JSON: refuse what cannot be enforced; else it is left to the model
    whitespace: Literal["fixed", "flexible"] = "fixed"  # JSON: one separator each, or any up to a bound


class ChatMessage(Wire, frozen=True):
    role: str
    content: str
    extra: dict[str, Any] = {}  # name, tool_calls, tool_call_id: as the template wants them


class TokenLogprob(Wire, frozen=True):
    """Log-probability of a chosen token and of the most likely ones (natural log, before temperature)."""

    token_id: TokenId
    logprob: float | None  # None: the first of a prompt, which nothing precedes
    top: tuple[tuple[TokenId, float], ...] = ()


class TextLogprob(Wire, frozen=True):
    """A `TokenLogprob` with each token's bytes (a token can be a part of a character)."""

    token_id: TokenId
    logprob: float | None
    token_bytes: bytes
    top: tuple[tuple[TokenId, float, bytes], ...] = ()


class Capacity(Wire, frozen=True):
    """KV slots of an executor, in tokens. free + evictable + pinned = capacity_tokens."""

    free_tokens: Natural
    evictable_tokens: Natural  # cached, and no running request needs them
    pinned_tokens: Natural  # held by running requests, privately or in the tree
    protected_tokens: dict[str, Natural] = {}  # by tenant: of the evictable ones, what its quota keeps from the others


class Counts(Wire, frozen=True):
    """Of one attempt, up to the message that they stand in."""

    prompt_tokens: Natural
    cached_tokens: Natural  # of this attempt, at most prompt_tokens
    executor: str = ""  # where it runs; empty before
    forward_steps: Natural = 0  # in which anything of it was computed
    forced_tokens: Natural = 0  # of its output: those that its constraint left no choice about
    preemptions: Natural = 0  # how often it gave way after it had begun
    queue_s: Seconds = 0.0  # that it waited for its turn,
    compile_s: Seconds = 0.0  # and for its constraint to be compiled


class CacheCounters(Wire, frozen=True):
    """Running totals since the executor's start, and the tree's present size."""

    hit_tokens: Natural = 0
    miss_tokens: Natural = 0
    evicted_tokens: Natural = 0
    cached_tokens: Natural = 0
    nodes: Natural = 0
    namespaces: Natural = 0
    cheap_namespaces: Natural = 0  # whose reuse is so low that they are kept in the cheap mode
    drafted_tokens: Natural = 0  # guessed from a request's own text, and computed
    accepted_tokens: Natural = 0  # of these, found right


class ConstraintCounters(Wire, frozen=True):
    """Of the constrained-decoding stage: running totals since the executor's start, and what it holds now."""

    computed_masks: Natural = 0
    inherited_masks: Natural = 0  # of states where another request had been before
    forced_tokens: Natural = 0  # appended without a choice
    compiled_grammars: Natural = 0
    refused_grammars: Natural = 0
    rebuilt_grammars: Natural = 0  # after a matcher had spoilt what it shares with the others
    grammars: Natural = 0
    states: Natural = 0
    state_bytes: Natural = 0


class StageTimes(Wire, frozen=True):
    """Seconds of one step by stage; `total_s` is the whole step, the rest of it is bookkeeping."""

    total_s: Seconds = 0.0
    match_s: Seconds = 0.0
    forward_s: Seconds = 0.0
    mask_s: Seconds = 0.0
    sample_s: Seconds = 0.0


class Progress(Wire, frozen=True):
    """What a heartbeat says: how far the sender has come, not that its event loop turns."""

    last_seq: Natural = 0  # of work done: steps, encodes, batches
    step_age_s: Seconds = 0.0  # how long the piece of work in hand has been going on; 0 when idle
    waiting: Natural = 0
    running: Natural = 0
    peers: dict[str, Natural] = {}  # live peers by role, as the sender sees them
    lost: dict[str, Natural] = {}  # peers by role that have left since the sender's start


class ExecutorInfo(Wire, frozen=True):
    model_id: str
    capacity_tokens: Positive
    page_size: Positive
    max_batch: Positive  # lanes in one step
    max_model_len: Natural
    caches: bool = True  # what was computed can be found by others
    draft_tokens: Natural = 0  # the most that it drafts for one request in a step, if a plan has them to spare
    forced_tokens: Natural = 0  # the same of tokens that a constraint leaves no choice about


class Stored(Wire, frozen=True, tag=1):
    """A new node of an executor's radix tree; nodes have numbers that are never used twice."""

    node: Natural
    parent: Natural | None  # None: the root of the namespace
    namespace: str
    token_ids: bytes  # int32, little-endian


class Grown(Wire, frozen=True, tag=2):
    """A node without children has got more tokens at its end."""

    node: Natural
    token_ids: bytes  # int32, little-endian


class Split(Wire, frozen=True, tag=3):
    """A node's first `tokens` tokens have become the new node `upper`, which is now its parent."""

    node: Natural
    tokens: Natural
    upper: Natural


class Cut(Wire, frozen=True, tag=4):
    """Of a node without children only the first `tokens` tokens are left; with none of them it is gone."""

    node: Natural
    tokens: Natural


TreeEvent: TypeAlias = Stored | Grown | Split | Cut


# --- any dialler <-> bound side --------------------------------------------------------------------------------------


class Hello(Message, frozen=True):
    role: Role
    protocol: int
    name: Name  # for people: "tokenizer-1"
    executor: ExecutorInfo | None = None


class Welcome(Message, frozen=True):
    """`grant` goes up with each Welcome; every later message of the dialler carries it."""

    grant: Natural
    identity: str  # of the bound side
    protocol: int = PROTOCOL


class Refused(Message, frozen=True):
    """The Hello cannot be accepted: another protocol version, or a role that this endpoint does not serve."""

    reason: str


class Reset(Message, frozen=True):
    """The grant is not in force (any more): say Hello again."""


class Heartbeat(Message, frozen=True):
    progress: Progress


Control: TypeAlias = Hello | Welcome | Refused | Reset | Heartbeat


# --- gateway <-> tokenizer -------------------------------------------------------------------------------------------


class Ready(Message, frozen=True):
    """How many Encodes may be outstanding on this tokenizer at once."""

    credits: Natural


class Encode(Message, frozen=True):
    """Exactly one of prompt, messages and prompt_token_ids is given."""

    request_id: str
    attempt: Positive
    sampling: Sampling
    text: TextOptions
    prompt: str | None = None
    messages: tuple[ChatMessage, ...] | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    prompt_token_ids: tuple[TokenId, ...] | None = None
    resume_token_ids: tuple[TokenId, ...] = ()  # generated by earlier attempts
    text_offset: Natural = 0  # characters already sent to the client by earlier attempts
    max_new_tokens: Natural | None = None  # None: the room that the context leaves
    constraint: Constraint | None = None
    namespace: str = ""
    priority: int = 0  # larger runs earlier
    time_left_s: Finite | None = None  # until its deadline, when this was sent: machines' clocks may differ
    template_options: dict[str, Any] = {}  # chat_template_kwargs, add_generation_prompt, continue_final_message
    trace_id: TraceId = ""
    samples: Positive = 1  # of this prompt, with this one, in the same request


class Encoded(Message, frozen=True):
    """The request was submitted to the scheduler."""

    request_id: str
    attempt: Positive
    encode_s: Seconds = 0.0  # since the Encode arrived


class EncodeFailed(Message, frozen=True):
    request_id: str
    attempt: Positive
    error: Error


class Text(Message, frozen=True):
    """Tokenize, count or detokenize on the side; `call_id` names the answer."""

    call_id: str
    op: Literal["tokenize", "count", "detokenize"]
    prompt: str | None = None
    messages: tuple[ChatMessage, ...] | None = None
    token_ids: tuple[TokenId, ...] | None = None
    add_special_tokens: bool = True
    skip_special_tokens: bool = True
    tools: tuple[dict[str, Any], ...] | None = None  # with messages, as in Encode
    template_options: dict[str, Any] = {}  # the same
    with_tokens: bool = False  # tokenize: the tokens too, as the vocabulary writes them


class TextReply(Message, frozen=True):
    call_id: str
    token_ids: tuple[TokenId, ...] = ()
    count: Natural = 0
    text: str = ""
    error: Error | None = None
    tokens: tuple[str, ...] = ()


# --- towards the scheduler -------------------------------------------------------------------------------------------


class Submit(Message, frozen=True):
    """From a tokenizer; from the gateway itself on a retry whose prompt ids are known."""

    request_id: str
    attempt: Positive
    gateway: str  # identity of the gateway on the hub
    prompt_token_ids: tuple[TokenId, ...]
    sampling: Sampling
    text: TextOptions
    max_new_tokens: Natural
    resume_token_ids: tuple[TokenId, ...] = ()
    text_offset: Natural = 0
    constraint: Constraint | None = None
    namespace: str = ""
    priority: int = 0
    time_left_s: Finite | None = None
    trace_id: TraceId = ""
    samples: Positive = 1


class Abort(Message, frozen=True):
    """Holds for this attempt and for every earlier one, also when it overtakes its Submit."""

    request_id: str
    attempt: Positive
    gateway: str
    reason: AbortReason


class AuditEntry(Wire, frozen=True):
    request_id: str
    attempt: Positive
    settled: bool  # submitted long enough ago that the scheduler must know it


class Audit(Message, frozen=True):
    """Everything that the sending gateway holds open."""

    open: tuple[AuditEntry, ...]


class Admin(Message, frozen=True):
    call_id: str
    op: Literal["flush", "drain", "tree", "info", "counters"]
    timeout_s: Seconds = 5.0
    text: bool = False  # tree: with the first token ids of each node


class AdminReply(Message, frozen=True):
    call_id: str
    payload: dict[str, Any] = {}
    error: Error | None = None


# --- scheduler -> gateway --------------------------------------------------------------------------------------------


class Accepted(Message, frozen=True):
    request_id: str
    attempt: Positive
    prompt_token_ids: tuple[TokenId, ...]  # for a retry without a tokenizer
    max_new_tokens: Natural


class Rejected(Message, frozen=True):
    """Final: the client gets this error."""

    request_id: str
    attempt: Positive
    error: Error
    counts: Counts | None = None  # of the attempt, if it was accepted


class Lost(Message, frozen=True):
    """The attempt is gone (its executor or detokenizer died, or it was never known): submit the next one."""

    request_id: str
    attempt: Positive
    reason: str
    excused: bool = False  # with its executor: the scheduler finds out who is to blame, and gives up no other


# --- scheduler <-> executor ------------------------------------------------------------------------------------------


class Admit(Wire, frozen=True):
    """Makes a request known under a lane. It holds no KV and no pin until its first slice runs.

    A request that gave way to others comes again, under another lane, with what it has generated to resume from.
    """

    lane: Natural
    request_id: str
    prompt_token_ids: tuple[TokenId, ...]
    sampling: Sampling
    max_new_tokens: Natural
    resume_token_ids: tuple[TokenId, ...] = ()
    constraint: Constraint | None = None
    namespace: str = ""
    priority: int = 0
    has_run: bool = False  # before, here or elsewhere: what it finds now is no news
    attempt: Positive = 1
    trace_id: TraceId = ""


class Slice(Wire, frozen=True):
    """Compute up to num_tokens more tokens of the lane; fewer when fewer are known."""

    lane: Natural
    num_tokens: Natural


class StepPlan(Message, frozen=True):
    """One step, run strictly by `seq`: release, admit, then the slices, in this order."""

    seq: Natural
    admits: tuple[Admit, ...] = ()
    slices: tuple[Slice, ...] = ()
    spare_tokens: Natural = 0  # what the executor may spend beyond the slices on forced or drafted tokens
    # These give up their KV (it stays in the tree); this plan's admits may use their numbers.
    release: tuple[Natural, ...] = ()


class Cancel(Message, frozen=True):
    """Outside the plans, read before each step: skip these lanes until their release arrives."""

    lanes: tuple[Natural, ...]


class Compile(Message, frozen=True):
    """Make a constraint ready for requests of a tenant that wait; answered by `Compiled`, at once if it is."""

    constraint: Constraint
    tenant: str = ""


class Compiled(Message, frozen=True):
    key: str  # of the constraint: `shared.constraints.key_of`
    error: Error | None = None  # of the client: its `param` is "constraint", or a path behind that
    tenant: str | None = None  # whose requests have this answer; None: everybody's


class Outcome(Wire, frozen=True):
    """What became of a lane in a step. Absolute figures: a repeated or late outcome does no harm."""

    lane: Natural
    computed_tokens: Natural  # tokens whose KV the lane holds
    cached_tokens: Natural  # found in the tree at its first slice; 0 before that
    new_token_ids: tuple[TokenId, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()  # one for each new token, if asked for
    prompt_logprobs: tuple[TokenLogprob, ...] = ()  # all that were asked for, at once
    finish_reason: FinishReason | None = None
    matched_stop: TokenId | None = None  # the token id that stopped it
    waiting: Literal["grammar"] | None = None  # not run: its constraint has to be compiled (again) first
    declined: bool = False  # the slice was not run and had no side effect: no room
    error: Error | None = None
    forced_tokens: Natural = 0  # of all tokens reported under this lane, those that its constraint left no choice about


class StepResult(Message, frozen=True):
    seq: Natural
    outcomes: tuple[Outcome, ...]
    capacity: Capacity
    cache: CacheCounters
    times: StageTimes
    events: tuple[TreeEvent, ...] = ()  # what the step has changed in the tree, in order
    extra_tokens: Natural = 0  # computed beyond the slices: forced ones, and drafts, accepted or not
    constraints: ConstraintCounters = ConstraintCounters()
    computed_tokens: Natural = 0  # in this step


class TreeChanged(Message, frozen=True):
    """Changes outside of steps, in order; first of all under a grant, the whole tree as `Stored` events."""

    events: tuple[TreeEvent, ...]


# --- scheduler -> detokenizer -> gateway -----------------------------------------------------------------------------


class Open(Message, frozen=True):
    request_id: str
    attempt: Positive
    gateway: str
    text: TextOptions
    logprobs: bool = False
    resume_token_ids: tuple[TokenId, ...] = ()
    text_offset: Natural = 0
    trace_id: TraceId = ""


class TokenUpdate(Wire, frozen=True):
    """`offset` counts output tokens from the request's start, resumed ones included."""

    gateway: str
    request_id: str
    attempt: Positive
    offset: Natural
    token_ids: tuple[TokenId, ...]
    counts: Counts
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    matched_stop: TokenId | None = None
    error: Error | None = None
    prompt_logprobs: tuple[TokenLogprob, ...] = ()


class TokenBatch(Message, frozen=True):
    updates: tuple[TokenUpdate, ...]


class TextUpdate(Wire, frozen=True):
    """`text_offset` counts characters of output text from the request's start."""

    request_id: str
    attempt: Positive
    token_offset: Natural
    token_ids: tuple[TokenId, ...]
    text_offset: Natural
    text: str
    counts: Counts
    logprobs: tuple[TextLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    matched_stop: TokenId | str | None = None
    error: Error | None = None
    prompt_logprobs: tuple[TextLogprob, ...] = ()


class TextBatch(Message, frozen=True):
    updates: tuple[TextUpdate, ...]


# --- what each role may say, by endpoint -----------------------------------------------------------------------------

FrontFromTokenizer: TypeAlias = Hello | Heartbeat | Ready | Encoded | EncodeFailed | TextReply
FrontFromDetokenizer: TypeAlias = Hello | Heartbeat | TextBatch
FrontToTokenizer: TypeAlias = Welcome | Refused | Reset | Heartbeat | Encode | Text
FrontToDetokenizer: TypeAlias = Welcome | Refused | Reset | Heartbeat

HubFromGateway: TypeAlias = Hello | Heartbeat | Submit | Abort | Audit | Admin
HubFromTokenizer: TypeAlias = Hello | Heartbeat | Submit
HubFromDetokenizer: TypeAlias = Hello | Heartbeat | Abort
HubFromExecutor: TypeAlias = Hello | Heartbeat | StepResult | TreeChanged | Compiled | AdminReply
HubToGateway: TypeAlias = Welcome | Refused | Reset | Heartbeat | Accepted | Rejected | Lost | AdminReply
HubToTokenizer: TypeAlias = Welcome | Refused | Reset | Heartbeat
HubToDetokenizer: TypeAlias = Welcome | Refused | Reset | Heartbeat | Open | TokenBatch
HubToExecutor: TypeAlias = Welcome | Refused | Reset | Heartbeat | StepPlan | Cancel | Compile | Admin

FRONT_ACCEPTS: dict[Role, Any] = {"tokenizer": FrontFromTokenizer, "detokenizer": FrontFromDetokenizer}
HUB_ACCEPTS: dict[Role, Any] = {
    "gateway": HubFromGateway,
    "tokenizer": HubFromTokenizer,
    "detokenizer": HubFromDetokenizer,
    "executor": HubFromExecutor,
}

_MAX_BYTES: dict[Any, int] = {
    Hello: 4 * 1024,
    HubFromGateway: 16 * 1024 * 1024,
    HubFromTokenizer: 16 * 1024 * 1024,
    HubFromDetokenizer: 64 * 1024,
}


def max_bytes(accepts: Any) -> int:
    """The most that one message of this union (or type) may take, so that nothing larger is even decoded."""
    return _MAX_BYTES.get(accepts, MAX_MESSAGE_BYTES)
