"""The detokenizer's edge: Opens and TokenBatches from the hub, TextBatches to the gateways' fronts, Aborts to the hub.

One TokenBatch becomes one TextBatch for each gateway in it. What to send is decided by `core`; a send that fails needs
no answer here, since the link then reports the peer as left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from services.detokenizer.core import Command, Core, Send
from services.detokenizer.vocabulary import load_vocabulary
from shared import logging, wire
from shared.link import Joined, Left, LinkEvent, Received
from shared.log_names import named
from shared.model_card import prepared_folder
from shared.service import Context, Service


def build(context: Context) -> Service:
    """Raises ConfigError if the model is not prepared or its tokenizer cannot be used."""
    return DetokenizerService(context, Core(load_vocabulary(prepared_folder(context.config.model))))


class DetokenizerService:
    def __init__(self, context: Context, core: Core) -> None:
        self._context = context
        self._core = core
        self._log = logging.get()
        self._front = context.dial(
            "front", "detokenizer", wire.FrontToDetokenizer, self._on_front, progress=self.progress
        )
        self._hub = context.dial("hub", "detokenizer", wire.HubToDetokenizer, self._on_hub, progress=self.progress)
        self._batches = 0

    async def start(self) -> None:
        """Nothing to wait for: the links dial at the first refresh."""

    async def stop(self) -> None:
        self._front.close()
        self._hub.close()

    def tick(self) -> None:
        self._front.tick()
        self._hub.tick()

    async def refresh(self) -> None:
        await self._front.refresh()
        await self._hub.refresh()

    def progress(self) -> wire.Progress:
        return wire.Progress(
            last_seq=self._batches,
            running=self._core.open_requests,
            peers={"gateway": len(self._front.peers), "scheduler": len(self._hub.peers)},
        )

    def _on_front(self, event: LinkEvent) -> None:
        match event:
            case Joined(gateway):
                self._core.gateway_joined(gateway)
            case Left(gateway):
                self._carry_out(self._core.gateway_left(gateway))
            case Received():
                pass  # gateways say nothing but heartbeats here
            case _:
                assert_never(event)

    def _on_hub(self, event: LinkEvent) -> None:
        match event:
            case Left():
                self._core.hub_left()
            case Received(_, wire.Open() as message):
                self._carry_out(self._core.open(message))
            case Received(_, wire.TokenBatch(updates)):
                self._batches += 1
                self._carry_out(command for update in updates for command in self._core.take(update))
            case Joined() | Received():
                pass
            case _:
                assert_never(event)

    def _carry_out(self, commands: Iterable[Command]) -> None:
        """Texts before Aborts: a gateway is to know of an end before the scheduler can forget the request."""
        batches: dict[str, list[wire.TextUpdate]] = {}
        aborts: list[wire.Abort] = []
        for command in commands:
            match command:
                case Send(gateway, update):
                    self._tell(command)
                    batches.setdefault(gateway, []).append(update)
                case wire.Abort():
                    aborts.append(command)
                case _:
                    assert_never(command)
        for gateway, updates in batches.items():
            self._front.send(gateway, wire.TextBatch(tuple(updates)))
        for abort in aborts:
            self._abort(abort)

    def _tell(self, send: Send) -> None:
        """Of an end, and how much there was by then."""
        update = send.update
        if update.finish_reason is not None:
            self._log.info(
                "detokenized",
                **named(update.request_id, send.trace_id, attempt=update.attempt),
                finish_reason=update.finish_reason,
                output_tokens=update.token_offset + len(update.token_ids),
                characters=update.text_offset + len(update.text),
            )

    def _abort(self, abort: wire.Abort) -> None:
        if abort.reason != "stop_string":
            self._log.warning("dropped", request_id=abort.request_id, attempt=abort.attempt, reason=abort.reason)
        for hub in self._hub.peers:
            self._hub.send(hub, abort)
