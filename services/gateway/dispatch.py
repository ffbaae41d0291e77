"""The gateway's edge to the other stages: the front (bound), the hub (dialled), and the journal between them.

Translates link events into the journal's and carries out its commands; hands each handler the stream of its request.
Decides nothing about a request itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, assert_never

import msgspec

from services.gateway.admission import Admission
from services.gateway.calls import Calls
from services.gateway.errors import ApiError
from services.gateway.events import (
    Aborted,
    ClientGone,
    Command,
    Deliver,
    EncodedBy,
    EncodeFailedBy,
    Event,
    Finish,
    HubJoined,
    HubLeft,
    HubProgressed,
    Opened,
    Retrying,
    Stopping,
    Tick,
    ToHub,
    TokenizerJoined,
    TokenizerLeft,
    TokenizerReady,
    ToTokenizer,
)
from services.gateway.generation import Ending, GenerateRequest
from services.gateway.journal import Journal
from services.gateway.stages import Stages
from services.gateway.stream import Stream
from services.gateway.text_room import TextCall, TextRoom
from services.gateway.text_turns import TextTurns
from shared import logging, wire
from shared.link import Joined, Left, LinkEvent, Received
from shared.log_names import named
from shared.namespaces import tenant_of
from shared.service import Context

TEXTS_AT_ONCE = 4  # asked of the tokenizers, which answer them in turn with the prompts
BYTES_OF_AN_ID = 8  # about, as text
ADMIN_SLACK_S = 1.5  # beyond what the scheduler is given: its own answer says more than ours

DRAINING = wire.Error("the server is shutting down", "shutting_down", status=503, retry_after_s=1.0)


class _Reader(NamedTuple):
    stream: Stream
    number: int  # of the generation in the stream
    tenant: str


class Dispatcher:
    """Binds and dials at once. Raises what the transport raises when an address is taken."""

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.monotonic) -> None:
        config = context.config
        self.draining = False
        self.idle = asyncio.Event()  # set while no request is open
        self.idle.set()
        self.stages = Stages(config.supervisor.hang_timeout_s, clock)
        self._config = config.gateway
        self._clock = clock
        self._log = logging.get()
        self._journal = Journal(
            context.identity,
            max_attempts=config.gateway.max_attempts,
            stall_timeout_s=config.gateway.stall_timeout_s,
        )
        self._readers: dict[str, _Reader] = {}  # of the open requests
        self._admission = Admission(config.gateway.max_open_requests)
        self._finished_requests = 0
        self._admin_calls: Calls[wire.AdminReply] = Calls("scheduler")
        self._text_calls: Calls[wire.TextReply] = Calls("tokenizer")
        self._text_turns = TextTurns(TEXTS_AT_ONCE)
        self.text_room = TextRoom(config.gateway.max_open_requests)
        self._front = context.bind(
            "front_bind", wire.FRONT_ACCEPTS, self._on_front, progress=self.progress, clock=clock
        )
        self._hub = context.dial("hub", "gateway", wire.HubToGateway, self._on_hub, progress=self.progress, clock=clock)
        self._tell(Tick(clock()))  # the journal's time begins

    # --- for the handlers ---------------------------------------------------------------------------------------------

    def open(self, request_id: str, requests: Sequence[GenerateRequest], trace_id: str = "") -> Stream:
        """All of them, in one stream. Raises ApiError (429, 503) when there is no room for them."""
        if self.draining:
            raise ApiError(DRAINING)
        tenant, now_s = tenant_of(requests[0].namespace), self._clock()
        refusal = self._admission.refusal(tenant, len(requests), now_s)
        if refusal is not None:
            raise ApiError(refusal)
        ids = [request_id] if len(requests) == 1 else [f"{request_id}-{index}" for index in range(len(requests))]
        stream = Stream(len(requests), lambda index: self._tell(ClientGone(ids[index])))
        self._admission.opened(tenant, len(requests), now_s)
        self.idle.clear()
        most_s = self._config.request_timeout_s
        for index, (each, request) in enumerate(zip(ids, requests, strict=True)):
            self._readers[each] = _Reader(stream, index, tenant)
            self._tell(Opened(each, request, now_s + min(request.timeout_s or most_s, most_s), trace_id))
        return stream

    def abort(self, tenant: str, client_id: str) -> None:
        self._tell(Aborted(tenant, client_id))

    async def admin(
        self, op: Literal["flush", "tree", "info", "counters"], timeout_s: float, *, text: bool = False
    ) -> dict[str, Any]:
        """The scheduler's answer. Raises ApiError if it is away, does not answer in time, or answers with an error."""
        reply = await self._admin_calls.ask(
            self._hub.peers,
            lambda peer, call_id: self._hub.send(peer, wire.Admin(call_id, op, timeout_s, text)),
            timeout_s + ADMIN_SLACK_S,
        )
        if reply.error is not None:
            raise ApiError(reply.error)
        return reply.payload

    async def text(self, question: wire.Text, call: TextCall, timeout_s: float) -> wire.TextReply:
        """Some tokenizer's answer, within a call that has room; the question's `call_id` does not matter.

        Raises ApiError as `admin` does.
        """
        async with self._text_turns.turn(call.tenant):
            reply = await self._ask_tokenizer(question, timeout_s)
        if reply.error is not None:
            raise ApiError(reply.error)
        return reply

    async def detokenize(self, token_ids: tuple[int, ...], tenant: str, timeout_s: float) -> str:
        """Their text without special tokens. Raises ApiError as `text` does, and when there is no room (429)."""
        with self.text_room.open(tenant, len(token_ids) * BYTES_OF_AN_ID) as call:
            return (await self.text(wire.Text("", "detokenize", token_ids=token_ids), call, timeout_s)).text

    async def _ask_tokenizer(self, question: wire.Text, timeout_s: float) -> wire.TextReply:
        return await self._text_calls.ask(
            self._front.peers("tokenizer"),
            lambda peer, call_id: self._front.send(peer, msgspec.structs.replace(question, call_id=call_id)),
            timeout_s,
        )

    @property
    def open_requests(self) -> int:
        return len(self._readers)

    # --- for the service ----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        self._front.tick()
        self._hub.tick()
        self._tell(Tick(self._clock()))

    async def refresh(self) -> None:
        await self._hub.refresh()

    def progress(self) -> wire.Progress:
        return wire.Progress(
            last_seq=self._finished_requests,
            running=self.open_requests,
            peers=self.stages.counts(),
        )

    def end_all(self) -> None:
        """Whatever is still open ends with an error, and the work on it too."""
        self._tell(Stopping())

    def close(self) -> None:
        self._front.close()
        self._hub.close()

    # --- events in ----------------------------------------------------------------------------------------------------

    def _on_front(self, event: LinkEvent) -> None:
        match event:
            case Joined(peer, hello):
                assert hello is not None  # the bound side always hears it
                self.stages.joined(peer, hello.role, hello.name)
                self._log.info("peer_joined", peer=hello.name, role=hello.role)
                if hello.role == "tokenizer":
                    self._tell(TokenizerJoined(peer, hello.name))
            case Left(peer, reason):
                if self._on_left(peer, reason) == "tokenizer":
                    self._text_calls.left(peer)
                    self._tell(TokenizerLeft(peer))
            case Received(peer, message):
                self._on_front_message(peer, message)
            case _:
                assert_never(event)

    def _on_front_message(self, peer: str, message: Any) -> None:
        match message:
            case wire.TextBatch(updates):
                for update in updates:
                    self._tell(update)
            case wire.Ready(granted):
                self._tell(TokenizerReady(peer, granted))
            case wire.Encoded():
                self._tell(EncodedBy(peer, message))
            case wire.EncodeFailed():
                self._tell(EncodeFailedBy(peer, message))
            case wire.TextReply(call_id):
                self._text_calls.answered(call_id, message)
            case wire.Heartbeat(progress):
                self.stages.progressed(peer, progress)

    def _on_hub(self, event: LinkEvent) -> None:
        match event:
            case Joined(peer):
                self.stages.joined(_of_hub(peer), "scheduler", "scheduler")
                self._log.info("peer_joined", peer="scheduler", role="scheduler")
                self._tell(HubJoined(peer))
            case Left(peer, reason):
                self._on_left(_of_hub(peer), reason)
                self._tell(HubLeft(peer))
                self._admin_calls.left(peer)
            case Received(peer, message):
                self._on_hub_message(peer, message)
            case _:
                assert_never(event)

    def _on_hub_message(self, peer: str, message: Any) -> None:
        match message:
            case wire.Accepted() | wire.Lost():
                self._tell(message)
            case wire.Rejected(request_id, _, error):
                self._tell(msgspec.structs.replace(message, error=self._as_told(request_id, error)))
            case wire.Heartbeat(progress):
                self.stages.progressed(_of_hub(peer), progress)
                self._tell(HubProgressed(progress.last_seq))
            case wire.AdminReply(call_id):
                self._admin_calls.answered(call_id, message)

    def _as_told(self, request_id: str, error: wire.Error) -> wire.Error:
        reader = self._readers.get(request_id)
        if reader is None:
            return error
        return self._admission.refused(reader.tenant, reader.stream.size, error, self._clock())

    def _on_left(self, peer: str, reason: str) -> wire.Role:
        gone = self.stages.left(peer)
        self._log.warning("peer_left", peer=gone.name, role=gone.role, reason=reason)
        return gone.role

    # --- commands out -------------------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        for command in self._journal.handle(event, self._clock()):
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        """A send that fails needs no answer here: the link reports that the peer left, and the journal acts on that."""
        match command:
            case ToTokenizer(peer, message):
                self._front.send(peer, message)
            case ToHub(peer, message):
                self._hub.send(peer, message)
            case Deliver(request_id, delta):
                reader = self._readers[request_id]
                reader.stream.deliver(reader.number, delta)
            case Finish(request_id, ending):
                self._on_finished(request_id, ending)
            case Retrying(request_id, attempt, reason, trace_id):
                self._log.warning("resubmitting", **named(request_id, trace_id, attempt=attempt), reason=reason)
            case _:
                assert_never(command)

    def _on_finished(self, request_id: str, ending: Ending) -> None:
        self._finished_requests += 1
        reader = self._readers.pop(request_id)
        self._admission.ended(reader.tenant, self._clock())
        reader.stream.finish(reader.number, ending)
        if not self._readers:
            self.idle.set()


def _of_hub(peer: str) -> str:
    """Among the peers of both links; no name on the front has a slash, so that nobody there can be taken for it."""
    return f"hub/{peer}"
