"""The tokenizer's edge: Encodes and Texts from the gateways' fronts, Submits to the hub.

Owns the queue of work and the Submits that wait for a hub; both are bounded by the credits given to each gateway, and
by the few Texts that a gateway asks for at once. The work itself is done one job at a time in a thread, so that the
links stay alive beside a long prompt. A Submit is never dropped while its gateway is there; when a gateway has left,
its work here is void, for it encodes again elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_never

from services.tokenizer.codec import Codec
from services.tokenizer.encode import Encoder
from shared import logging, wire
from shared.link import Joined, Left, LinkEvent, Received
from shared.log_names import named
from shared.model_card import load_card, prepared_folder
from shared.service import Context, Service

FAREWELL_S = 0.2  # when stopping: how long Encodes may still come in after the last Ready,
FINISH_S = 10.0  # and how long the work at hand may take

INTERNAL = wire.Error("the tokenizer failed on this request", "internal_error", status=500)


@dataclass(frozen=True)
class Job:
    gateway: str
    visit: int  # of the gateway, during which it came
    message: wire.Encode | wire.Text
    arrived_s: float


class Encoded(NamedTuple):
    submit: wire.Submit
    encode_s: float  # since it came


Answer = wire.Submit | wire.EncodeFailed | wire.TextReply


def build(context: Context) -> Service:
    """Raises ConfigError if the model is not prepared or its tokenizer or template cannot be used."""
    folder = prepared_folder(context.config.model)
    card = load_card(context.config.model)
    return TokenizerService(context, Encoder.of(card, Codec.load(folder, card)))


class TokenizerService:
    def __init__(self, context: Context, encoder: Encoder, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._encoder = encoder
        self._log = logging.get()
        self._front = context.dial("front", "tokenizer", wire.FrontToTokenizer, self._on_front, progress=self.progress)
        self._hub = context.dial("hub", "tokenizer", wire.HubToTokenizer, self._on_hub, progress=self.progress)
        self._visits: dict[str, int] = {}  # of each linked gateway: the present one, counted over all gateways
        self._visits_begun = 0
        self._jobs: asyncio.Queue[Job] = asyncio.Queue()
        self._jobs_done = 0
        self._begun_s: float | None = None  # when the job in hand was
        self._unsent: deque[Encoded] = deque()
        self._working: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._working = asyncio.create_task(self._work())
        self._working.add_done_callback(self._on_worker_ended)

    async def stop(self) -> None:
        """Ask for no more, finish what is here."""
        for gateway in self._front.peers:
            self._front.send(gateway, wire.Ready(0))
        await asyncio.sleep(FAREWELL_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.finish(), FINISH_S)
        if self._working is not None:
            self._working.cancel()
        self._front.close()
        self._hub.close()

    async def finish(self) -> None:
        """Wait until all work that has come in is done."""
        await self._jobs.join()

    def tick(self) -> None:
        self._front.tick()
        self._hub.tick()

    async def refresh(self) -> None:
        await self._front.refresh()
        await self._hub.refresh()

    def progress(self) -> wire.Progress:
        return wire.Progress(
            last_seq=self._jobs_done,
            step_age_s=0.0 if self._begun_s is None else self._clock() - self._begun_s,
            waiting=self._jobs.qsize() + len(self._unsent),
            running=0 if self._begun_s is None else 1,
            peers={"gateway": len(self._front.peers), "scheduler": len(self._hub.peers)},
        )

    # --- links -------------------------------------------------------------------------------------------------------

    def _on_front(self, event: LinkEvent) -> None:
        match event:
            case Joined(gateway):
                self._visits_begun += 1
                self._visits[gateway] = self._visits_begun
                self._front.send(gateway, wire.Ready(self._context.config.tokenizer.credits))
            case Left(gateway):
                del self._visits[gateway]
                self._unsent = deque(encoded for encoded in self._unsent if encoded.submit.gateway != gateway)
            case Received(gateway, wire.Encode() | wire.Text() as message):
                self._jobs.put_nowait(Job(gateway, self._visits[gateway], message, self._clock()))
            case Received():
                pass  # a heartbeat
            case _:
                assert_never(event)

    def _on_hub(self, event: LinkEvent) -> None:
        match event:
            case Joined():
                self._submit()
            case Left() | Received():
                pass  # what is unsent waits for the next one
            case _:
                assert_never(event)

    # --- work --------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            if self._is_wanted(job):
                begun_s = self._begun_s = self._clock()
                result = await self._answer(job)
                self._begun_s = None
                self._jobs_done += 1
                if self._is_wanted(job):  # still
                    self._deliver(job, result, begun_s)
            self._jobs.task_done()

    def _is_wanted(self, job: Job) -> bool:
        return self._visits.get(job.gateway) == job.visit

    async def _answer(self, job: Job) -> Answer:
        """What fails on one request is that request's failure, not this process's."""
        try:
            return await asyncio.to_thread(answer, self._encoder, job)
        except Exception:
            self._log.exception("encode_broke", **_named(job))
            match job.message:
                case wire.Encode(request_id, attempt):
                    return wire.EncodeFailed(request_id, attempt, INTERNAL)
                case wire.Text(call_id):
                    return wire.TextReply(call_id, error=INTERNAL)

    def _deliver(self, job: Job, result: Answer, begun_s: float) -> None:
        match result:
            case wire.Submit():
                encode_s = self._clock() - job.arrived_s
                self._log.info(
                    "encoded",
                    **_named(job),
                    prompt_tokens=len(result.prompt_token_ids),
                    encode_s=round(encode_s, 6),
                    wait_s=round(begun_s - job.arrived_s, 6),
                )
                self._unsent.append(Encoded(result, encode_s))
                self._submit()
            case wire.EncodeFailed():
                self._log.info("refused", **_named(job), code=result.error.code)
                self._front.send(job.gateway, result)
            case wire.TextReply():
                self._front.send(job.gateway, result)
            case _:
                assert_never(result)

    def _submit(self) -> None:
        """Send what waits, in order; a send that fails is made again at the next join."""
        while self._unsent and self._hub.peers:
            submit, encode_s = self._unsent[0]
            if not self._hub.send(self._hub.peers[0], submit):
                return
            self._unsent.popleft()
            self._front.send(submit.gateway, wire.Encoded(submit.request_id, submit.attempt, encode_s))

    def _on_worker_ended(self, working: asyncio.Task[None]) -> None:
        if not working.cancelled():
            self._context.fail(f"the worker ended: {working.exception()!r}")


def _named(job: Job) -> dict[str, Any]:
    """A request's in the log."""
    match job.message:
        case wire.Encode(request_id, attempt, trace_id=trace_id):
            return named(request_id, trace_id, attempt=attempt)
        case _:
            return {}


def answer(encoder: Encoder, job: Job) -> Answer:
    match job.message:
        case wire.Encode() as request:
            result = encoder.encode(request, job.gateway)
            if isinstance(result, wire.Error):
                return wire.EncodeFailed(request.request_id, request.attempt, result)
            return result
        case wire.Text() as request:
            return encoder.convert(request)
        case _:
            assert_never(job.message)
