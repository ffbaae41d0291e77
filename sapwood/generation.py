"""The work behind `gen` and `select`: from a situation to a request, and from the answer to a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sapwood.backends.protocol import GenerateRequest, Generation, Sampling
from sapwood.checks import checked
from sapwood.choices import MEASURES, Measure, unconditional_likelihood_normalized
from sapwood.deferred import Outcome, Situation
from sapwood.errors import BackendError
from sapwood.options import SAMPLING_NAMES, sampling_of, with_defaults
from sapwood.schemas import Form
from sapwood.trace import Kind

TEXT = Form(str)


class GenerationWork(msgspec.Struct, frozen=True, kw_only=True):
    options: Mapping[str, Any]  # those that were given to it, none of them None
    form: Form = TEXT
    kind: Kind = "gen"

    def __post_init__(self) -> None:
        """Raises ProgramError where it is asked for, rather than where it is read."""
        _ = self.sampling

    @property
    def sampling(self) -> Sampling:
        return _sampling_in(self.options)

    async def outcome(self, situation: Situation) -> Outcome:
        request = self._request(situation, with_defaults(self.options, situation.defaults))
        samples = request.sampling.n
        if situation.show is None or samples > 1:
            return await self._outcome(await situation.backend.generate(request), samples)
        last: Generation | None = None
        async for last in situation.backend.stream(request):
            situation.show(last.text)
        if last is None:
            raise BackendError("the stream of an answer was empty")
        return await self._outcome([last], 1)

    def _request(self, situation: Situation, options: dict[str, Any]) -> GenerateRequest:
        if self.form.stop_regex is not None:
            options["stop_regex"] = (*options.get("stop_regex", ()), self.form.stop_regex)
        top, start = options.get("top_logprobs_num", 0), options.get("logprob_start_len")
        reports = options.get("return_logprob", top > 0 or start is not None)
        return GenerateRequest(
            prompt=situation.prompt,
            continues=situation.continues,
            sampling=_sampling_in(options),
            logprobs=reports,
            top_logprobs=top if reports else 0,
            prompt_logprobs_from=start if reports else None,
        )

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
        return {name: str(value) for name, value in self.options.items()}


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


def _sampling_in(options: Mapping[str, Any]) -> Sampling:
    return sampling_of({name: value for name, value in options.items() if name in SAMPLING_NAMES})
