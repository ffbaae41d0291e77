"""`gen` and `select`: in a program a value by its name, outside of any program one turn of chat on the default backend.

Only reads what was asked for; what is done about it is in `generation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Never, Unpack, overload

from sapwood.backends.protocol import Message
from sapwood.choices import MEASURES, Measure, MeasureName
from sapwood.current import current_state
from sapwood.default_backend import default_backend
from sapwood.deferred import Situation, Work
from sapwood.errors import ProgramError
from sapwood.generation import TEXT, GenerationWork, SelectionWork
from sapwood.inputs import work_of
from sapwood.loop import BACKGROUND
from sapwood.options import NAMES, OneSampleOptions, check_names, given_of
from sapwood.schemas import Form, form_of_dtype, form_of_schema


class GenOptions(OneSampleOptions, total=False):
    return_logprob: bool
    top_logprobs_num: int
    logprob_start_len: int  # first position of the prompt to score
    return_text_in_logprobs: bool  # it always is


@overload
def gen(name: str | None = None, max_tokens: int | None = None, **options: Unpack[GenOptions]) -> str: ...
@overload
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    n: int = 1,
    json_schema: Any = None,
    dtype: type | None = None,
    choices: Sequence[str] | None = None,
    choices_method: MeasureName | Measure | None = None,
    api_url: str | None = None,
    params: Mapping[str, object] | None = None,
    images: object = None,
    **options: Any,
) -> Any: ...


def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    json_schema: Any = None,
    dtype: type | None = None,
    choices: Sequence[str] | None = None,
    choices_method: MeasureName | Measure | None = None,
    api_url: str | None = None,
    params: Mapping[str, object] | None = None,
    images: object = None,
    **options: Any,
) -> Any:
    """Generate here.

    In a program it gives a value: `s += gen("x")` attaches it, `gen("x")` alone does where it stands, and compared,
    printed or read it is waited for. It behaves as the text that it will be; checkers see a `str`.

    Args:
        name: in a program, of the value: `s["name"]`. Outside, the prompt.
        json_schema: a schema, as JSON text or a mapping; or a type of pydantic, msgspec or dataclasses, and then the
            value is an instance of it.
        dtype: int, float, bool or str: the value is one, the text what Python writes for it.
        choices: the output is one of these, drawn token by token as any other. `choices_method` has them scored
            instead, as `select` does.
        api_url: no generation but an outside call, with `params`: see `call_api`.
        options: of sampling, see `SamplingOptions` in sapwood.options; with `n` the value is a list.

    Wherever a text or a number is taken, a value of the program is, too: the generation waits for it.

    Raises ProgramError for what does not go together.
    """
    if images is not None:
        image(images)
    if api_url is not None:
        return _called(name, api_url, params)
    if choices is not None and choices_method is not None:
        return select(name, choices, method=choices_method)
    asked = {"max_tokens": max_tokens, "json_schema": json_schema, "dtype": dtype, "choices": choices}
    return _value(name, work_of("gen", _generation_work, **asked, **options))


def gen_int(name: str | None = None, max_tokens: int | None = None, **options: Any) -> Any:
    return gen(name, max_tokens, dtype=int, **options)


def gen_string(name: str | None = None, max_tokens: int | None = None, **options: Any) -> Any:
    """Text in quotes; the value is what stands between them."""
    return gen(name, max_tokens, dtype=str, **options)


def select(
    name: str | None = None,
    choices: Sequence[str] = (),
    *,
    method: MeasureName | Measure = "token_length_normalized",
    choices_method: MeasureName | Measure | None = None,
) -> str:
    """The choice that the model finds most likely here. All are scored in one batch, after the prefix they share.

    Args:
        method: how likely a text is, by its name or itself: see `sapwood.choices`. `choices_method` is the same.
    """
    selected: str = _value(name, work_of("select", _selection_work, choices=choices, measure=choices_method or method))
    return selected


def image(_source: object) -> Never:
    """Refused: no model that this server runs sees images."""
    raise ProgramError("images: no model here can see them")


def _generation_work(json_schema: Any, dtype: type | None, **asked: Any) -> GenerationWork:
    check_names(asked, NAMES)
    if isinstance(asked["choices"], str):
        raise ProgramError("choices are a list of texts, not one text")
    if asked["choices"] is not None:
        asked["choices"] = [*map(_choice, asked["choices"])]
    options = given_of(asked | {"json_schema": json_schema, "dtype": dtype})
    form = _form(options.pop("json_schema", None), options.pop("dtype", None))
    return GenerationWork(options=options | given_of({"regex": form.regex, "json_schema": form.json_schema}), form=form)


def _selection_work(choices: Any, measure: MeasureName | Measure) -> SelectionWork:
    texts = () if isinstance(choices, str) else tuple(map(_choice, choices))
    if not texts or "" in texts:
        raise ProgramError("select takes a list of one choice or more, and none of them empty")
    if isinstance(measure, str):
        if measure not in MEASURES:
            raise ProgramError(f"there is no method {measure}: there are {', '.join(MEASURES)}")
        measure = MEASURES[measure]
    return SelectionWork(choices=texts, measure=measure)


def _choice(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)


def _form(json_schema: Any, dtype: type | None) -> Form:
    if json_schema is not None:
        return form_of_schema(json_schema)
    return TEXT if dtype is None else form_of_dtype(dtype)


def _called(name: str | None, url: str, params: Mapping[str, object] | None) -> Any:
    from sapwood.api_calls.call import call_api  # most programs call nothing

    if name is None:
        raise ProgramError("an outside call has a name")
    return call_api(name, url, params)


def _value(name: str | None, work: Work) -> Any:
    state = current_state()
    return _one_turn(name, work) if state is None else state.defer(name, work)


def _one_turn(prompt: str | None, work: Work) -> Any:
    if prompt is None:
        raise ProgramError("outside of a program the first argument is the prompt")
    situation = Situation(backend=default_backend(), prompt=(Message("user", prompt),), continues=False, defaults={})
    return BACKGROUND.result(work.outcome(situation)).value
