"""The stages behind a gateway, in one object, over the real links: tokenizers, scheduler with executor, detokenizer.

A prompt has one token a character. The answer is `pieces`: the token at offset i has id 100 + i and the text
pieces[i]. With `auto` it comes at once; else `emit` lets it out bit by bit. Everything that the gateway sent is kept.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from shared import wire
from shared.link import BoundLink, DialledLink, Joined, Left, Received
from shared.transport import MemoryTransport

FIRST_TOKEN_ID = 100
CACHED_TOKENS = 2
POOL = {
    "free_tokens": 10,
    "evictable_tokens": 20,
    "pinned_tokens": 30,
    "protected_tokens": {"a": 4, "b": 1},
    "hit_tokens": 8,
    "miss_tokens": 2,
    "evicted_tokens": 7,
    "cached_tokens": 50,
    "nodes": 3,
    "namespaces": 2,
    "cheap_namespaces": 1,
    "waiting": 0,
    "running": 1,
    "constraints": {"computed_masks": 9, "inherited_masks": 90, "forced_tokens": 40, "grammars": 2, "states": 30},
}


def tree(*heads):
    """What an executor answers to Admin("tree"): a node for each head, the n-th of 100 - n tokens."""
    sums = ("nodes", "namespaces", "cheap_namespaces", "cached_tokens", "pinned_tokens", "evictable_tokens")
    sums += ("capacity_tokens", "hit_tokens", "miss_tokens", "evicted_tokens", "deepest_tokens", "uses")
    node = {"namespace": "", "depth_tokens": 0, "children": 0, "pins": 1, "hits": 2, "priority": 0, "last_used": 5}
    return {
        **{key: number for number, key in enumerate(sums, 1)},
        "tenants": {"": {"cached_tokens": 4, "protected_tokens": 0}},
        "largest": [
            {**node, "tokens": 100 - number, "head_token_ids": list(map(ord, head))}
            for number, head in enumerate(heads)
        ],
    }


class LoopTransport(MemoryTransport):
    """Delivers by itself: the running loop pumps as soon as something is under way."""

    def __init__(self):
        super().__init__()
        self.queue = _Ringing(self)


class _Ringing(deque):
    def __init__(self, transport):
        super().__init__()
        self._transport = transport

    def append(self, call):
        super().append(call)
        asyncio.get_running_loop().call_soon(self._transport.pump)


@dataclass
class _Run:
    submit: wire.Submit
    offset: int
    text_offset: int


class FakePipeline:
    def __init__(self, transport, config, pieces=("Hello", ",", " world", "!")):
        self.transport = transport
        self.config = config
        self.pieces = tuple(pieces)
        self.auto = True
        self.finish_error = None  # the error that the answer ends in
        self.encode_error = None  # what tokenizers answer
        self.reject_error = None  # what the scheduler answers
        self.step_age_s = 0.0
        self.executors = 1
        self.admin_payload = {
            "flush": {"executors": {"executor-1": {"freed_tokens": 7}}},
            "info": {"executors": {"executor-1": {"model_id": "tiny"}}},
            "counters": {"executors": {"executor-1": POOL, "executor-2": POOL}},
            "tree": {"executors": {"executor-1": tree("You are", "Once"), "executor-2": tree("You are")}},
        }
        self.admin_error = None
        self.encodes, self.submits, self.aborts, self.audits = [], [], [], []
        self.texts, self.admins = [], []
        self._unanswered_texts = []
        self.answers_texts = True
        self.cached_tokens = CACHED_TOKENS  # what an attempt finds in the cache
        self.executor = "executor-1"  # where it runs
        self.runs = {}
        self.links = {}  # by the name of the process
        self.held_encodes = None  # a list: tokenizers do not answer
        self.hub = None

    # --- who is there ------------------------------------------------------------------------------------------------

    async def start(self, *, tokenizers=1):
        self.start_scheduler()
        for number in range(1, tokenizers + 1):
            await self.start_tokenizer(f"tokenizer-{number}")
        await self._dial("detokenizer-1", "detokenizer", wire.FrontToDetokenizer, lambda event: None)

    async def start_tokenizer(self, name, granted=4):
        def on_event(event):
            match event:
                case Joined(gateway):
                    link.send(gateway, wire.Ready(granted))
                case Received(gateway, wire.Encode() as encode):
                    self._on_encode(link, gateway, encode)
                case Received(gateway, wire.Text() as text):
                    self.texts.append(text)
                    self._unanswered_texts.append((link, gateway, text))
                    if self.answers_texts:
                        self.answer_texts()

        link = await self._dial(name, "tokenizer", wire.FrontToTokenizer, on_event)

    def answer_texts(self):
        """Those that have come."""
        waiting, self._unanswered_texts = self._unanswered_texts, []
        for link, gateway, text in waiting:
            link.send(gateway, _answer_text(text))

    def start_scheduler(self, identity="hub-1"):
        self.hub = BoundLink(
            self.transport,
            self.config.endpoint("hub_bind"),
            {"gateway": wire.HubFromGateway},
            self._on_hub,
            identity=identity,
            progress=self._progress,
        )

    def kill(self, name):
        """Without a word: its link notices when the gateway sends, or drops it for silence."""
        self.links.pop(name).close()

    def kill_scheduler(self):
        self.runs.clear()
        self.hub.close()

    def tick(self):
        for link in self.links.values():
            link.tick()
        self.hub.tick()

    async def _dial(self, name, role, accepts, on_event):
        link = self.links[name] = DialledLink(
            self.transport,
            self.config.endpoint("front"),
            accepts,
            on_event,
            to="gateway",
            identity=f"identity of {name}",
            hello=lambda: wire.Hello(role, wire.PROTOCOL, name),
            progress=lambda: wire.Progress(step_age_s=self.step_age_s),
        )
        await link.refresh()
        return link

    # --- tokenizers --------------------------------------------------------------------------------------------------

    def _on_encode(self, link, gateway, encode):
        self.encodes.append(encode)
        if self.held_encodes is not None:
            self.held_encodes.append(encode)
        elif self.encode_error is not None:
            link.send(gateway, wire.EncodeFailed(encode.request_id, encode.attempt, self.encode_error))
        else:
            link.send(gateway, wire.Encoded(encode.request_id, encode.attempt))
            self._submit(_submit_of(encode, gateway))

    # --- the scheduler -----------------------------------------------------------------------------------------------

    def _progress(self):
        return wire.Progress(peers={"executor": self.executors}, step_age_s=self.step_age_s)

    def _on_hub(self, event):
        match event:
            case Joined(peer):
                self.hub.send(peer, wire.Heartbeat(self._progress()))  # not only at the next beat
            case Left(peer):
                self.runs = {id_: run for id_, run in self.runs.items() if run.submit.gateway != peer}
            case Received(_, wire.Submit() as submit):
                self._submit(submit)
            case Received(_, wire.Abort() as abort):
                self.aborts.append(abort)
                run = self.runs.get(abort.request_id)
                if run is not None and run.submit.attempt <= abort.attempt:
                    del self.runs[abort.request_id]
            case Received(_, wire.Audit() as audit):
                self.audits.append(audit)
            case Received(peer, wire.Admin() as admin):
                self.admins.append(admin)
                payload = {"scheduler": {"running": len(self.runs), "waiting": 0}, **self.admin_payload[admin.op]}
                self.hub.send(peer, wire.AdminReply(admin.call_id, payload, self.admin_error))

    def _submit(self, submit):
        self.submits.append(submit)
        id_ = (submit.request_id, submit.attempt)
        if self.reject_error is not None:
            self.hub.send(submit.gateway, wire.Rejected(*id_, self.reject_error))
            return
        self.hub.send(submit.gateway, wire.Accepted(*id_, submit.prompt_token_ids, submit.max_new_tokens))
        self.runs[submit.request_id] = _Run(submit, len(submit.resume_token_ids), submit.text_offset)
        if self.auto:
            self.emit()

    # --- executor and detokenizer ------------------------------------------------------------------------------------

    def emit(self, num_tokens=None):
        """The next tokens of all that runs; None for all the rest."""
        for request_id in list(self.runs):
            self._emit(request_id, num_tokens)

    def _emit(self, request_id, num_tokens):
        run = self.runs[request_id]
        limit = min(len(self.pieces), run.submit.max_new_tokens)
        end = limit if num_tokens is None else min(limit, run.offset + num_tokens)
        token_ids = tuple(FIRST_TOKEN_ID + offset for offset in range(run.offset, end))
        num_prompt_tokens = len(run.submit.prompt_token_ids)
        text = "".join(self.pieces[:end])[run.text_offset :]
        update = wire.TextUpdate(
            *(request_id, run.submit.attempt, run.offset, token_ids, run.text_offset, text),
            wire.Counts(num_prompt_tokens, max(0, min(self.cached_tokens, num_prompt_tokens - 1)), self.executor),
            logprobs=self._logprobs(run, end),
            prompt_logprobs=_prompt_logprobs(run.submit),
            **self._ending(end, limit),
        )
        run.offset, run.text_offset = end, run.text_offset + len(text)
        if update.finish_reason is not None:
            del self.runs[request_id]
        self.links["detokenizer-1"].send(run.submit.gateway, wire.TextBatch((update,)))

    def _ending(self, end, limit):
        if end < limit:
            return {}
        if self.finish_error is not None:
            return {"finish_reason": "error", "error": self.finish_error}
        if end < len(self.pieces):
            return {"finish_reason": "length"}
        return {"finish_reason": "stop", "matched_stop": FIRST_TOKEN_ID + end - 1}

    def _logprobs(self, run, end):
        if not run.submit.sampling.logprobs:
            return ()
        top = run.submit.sampling.top_logprobs
        return tuple(
            wire.TextLogprob(
                FIRST_TOKEN_ID + offset,
                -0.25 * offset,
                self.pieces[offset].encode(),
                tuple((rank, -float(rank), f"t{rank}".encode()) for rank in range(top)),
            )
            for offset in range(run.offset, end)
        )


def _prompt_logprobs(submit):
    start = submit.sampling.prompt_logprobs_from
    return tuple(
        wire.TextLogprob(token_id, -0.5 * place if place else None, b"%d" % token_id)
        for place, token_id in enumerate(submit.prompt_token_ids)
        if start is not None and place >= start
    )


def _answer_text(text):
    if text.op == "detokenize":
        return wire.TextReply(text.call_id, text="".join(map(chr, text.token_ids)))
    prompt = text.prompt if text.messages is None else "".join(message.content for message in text.messages)
    token_ids = tuple(map(ord, prompt)) if text.op == "tokenize" else ()
    return wire.TextReply(text.call_id, token_ids, len(prompt), tokens=tuple(prompt) if text.with_tokens else ())


def _submit_of(encode, gateway):
    prompt = encode.prompt if encode.messages is None else "".join(m.content for m in encode.messages)
    return wire.Submit(
        *(encode.request_id, encode.attempt, gateway),
        encode.prompt_token_ids or tuple(map(ord, prompt)),
        *(encode.sampling, encode.text, 1000 if encode.max_new_tokens is None else encode.max_new_tokens),
        resume_token_ids=encode.resume_token_ids,
        text_offset=encode.text_offset,
        constraint=encode.constraint,
        namespace=encode.namespace,
        priority=encode.priority,
        time_left_s=encode.time_left_s,
    )
