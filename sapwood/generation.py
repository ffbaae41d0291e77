"""The work behind `gen` and `select`: from a situation to a request, and from the answer to a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sapwood.backends.protocol import GenerateRequest, Generation, Sampling
from sapwood.checks import checked
from sapwood.choices import MEASURES, Measure, unconditional_likelihood_normalized
from sapwood.deferred import Outcome, Situation
from sapwood.options import with_defaults
from sapwood.schemas import Form
from sapwood.trace import Kind

TEXT = Form(str)


class GenerationWork(msgspec.Struct, frozen=True, kw_only=True):
    sampling: Sampling
    form: Form = TEXT
    logprobs: bool = False
    top_logprobs: int = 0
    prompt_logprobs_from: int | None = None
    kind: Kind = "gen"

    async def outcome(self, situation: Situation) -> Outcome:
        sampling = with_defaults(self.sampling, situation.defaults)
        request = GenerateRequest(
            prompt=situation.prompt,
            continues=situation.continues,
            sampling=sampling,
            logprobs=self.logprobs,
            top_logprobs=self.top_logprobs,
            prompt_logprobs_from=self.prompt_logprobs_from,
        )
        if situation.show is None or sampling.n > 1:
            return await self._outcome(await situation.backend.generate(request), sampling.n)
        last: Generation | None = None
        async for last in situation.backend.stream(request):
            situation.show(last.text)
        return await self._outcome([last] if last else [], 1)

    async def _outcome(self, generations: list[Generation], samples: int) -> Outcome:
        """Of several samples the value is a list; the text goes on with the first."""
        values = await self._values([generation.text for generation in generations])
        value = values if samples > 1 else values[0]
        return Outcome(text=generations[0].text, value=value, generations=tuple(generations))

    async def _values(self, texts: Sequence[str]) -> list[Any]:
        if self.form is TEXT:
            return list(texts)
        return await checked(lambda: [self.form.read(text) for text in texts])

    def details(self) -> Mapping[str, str]:
        return {name: str(value) for name, value in msgspec.to_builtins(self.sampling).items()}


class SelectionWork(msgspec.Struct, frozen=True, kw_only=True):
    choices: tuple[str, ...]
    measure: Measure = MEASURES["token_length_normalized"]
    kind: Kind = "select"

    async def outcome(self, situation: Situation) -> Outcome:
        request = GenerateRequest(prompt=situation.prompt, continues=situation.continues)
        scores = await situation.backend.score(
            request, self.choices, unconditional=self.measure is unconditional_likelihood_normalized
        )
        chosen = scores[await checked(lambda: self.measure(scores))].choice
        return Outcome(text=chosen, value=chosen, scores=tuple(scores))

    def details(self) -> Mapping[str, str]:
        return {"choices": ", ".join(self.choices)}
