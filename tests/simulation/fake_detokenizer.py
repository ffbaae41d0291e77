"""A detokenizer without text: a token is its own text, and STOP is the stop string."""

from shared import wire
from tests.simulation.tokens import STOP


class FakeDetokenizer:
    def __init__(self):
        self.open: dict = {}  # (gateway, request_id) to [attempt, tokens, stops]
        self.ended: dict = {}
        self.gone: set[str] = set()  # gateways that it has no link with any more

    def reset(self):
        self.open.clear()
        self.ended.clear()

    def gateway_left(self, gateway):
        """Its front link is gone, and the requests of that gateway with it."""
        self.gone.add(gateway)
        for key in [key for key in self.open if key[0] == gateway]:
            yield wire.Abort(key[1], self.open.pop(key)[0], gateway, "stale")

    def receive(self, message):
        """Returns (gateway, TextUpdate) for gateways and Abort for the scheduler."""
        match message:
            case wire.Open():
                key = (message.gateway, message.request_id)
                if message.gateway in self.gone:
                    return [wire.Abort(message.request_id, message.attempt, message.gateway, "stale")]
                if key not in self.open or self.open[key][0] < message.attempt:
                    self.open[key] = [message.attempt, len(message.resume_token_ids), bool(message.text.stop)]
                return []
            case wire.TokenBatch(updates):
                return [out for update in updates for out in self._take(update)]
        return []

    def _take(self, update):
        key = (update.gateway, update.request_id)
        if self.ended.get(key, 0) >= update.attempt:
            return
        held = self.open.get(key)
        if held is not None and held[0] > update.attempt:
            return
        if held is None or held[0] < update.attempt or update.offset > held[1]:
            self.open.pop(key, None)
            yield wire.Abort(update.request_id, update.attempt, update.gateway, "stale")
            return
        new = update.token_ids[held[1] - update.offset :]
        reason, stopped = update.finish_reason, held[2] and STOP in new
        if stopped:
            new, reason = new[: new.index(STOP) + 1], "stop"
        offset, held[1] = held[1], held[1] + len(new)
        if reason:
            del self.open[key]
            self.ended[key] = update.attempt
        yield (
            update.gateway,
            wire.TextUpdate(
                update.request_id,
                update.attempt,
                offset,
                new,
                offset,
                "",
                update.counts,
                finish_reason=reason,
                error=update.error,
            ),
        )
        if stopped and update.finish_reason is None:
            yield wire.Abort(update.request_id, update.attempt, update.gateway, "stop_string")
