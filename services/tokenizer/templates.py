"""Chat templates: messages to text, as transformers' `apply_chat_template` does it (same sandbox, same settings).

Knows Jinja and one template, the operator's, compiled once. Knows no token ids, and never takes a template from a
request.

What a client wrote cannot pose as the template's own special tokens: a special token's text inside a message, a tool
or a template variable is marked, and comes out as a `Piece` of its own with `literal` set, which is to be encoded as
plain text (transformers' `sanitize_control_tokens`, for special tokens). The marks are Unicode noncharacters, which
are not for interchange; they are taken out of what a client wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import msgspec

from shared import wire
from shared.config import ConfigError

LITERAL_START, LITERAL_END = "\ufdd0", "\ufdd1"
CONTINUE_HERE = "\ufdd2 "  # the space shows whether the template trims its messages
MARKS = re.compile("[\ufdd0-\ufdd2]")

RESERVED = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})


class TemplateFailed(Exception):
    """These messages cannot be rendered; the text is for the client."""

    def __init__(self, message: str, param: str = "messages") -> None:
        super().__init__(message)
        self.param = param


class TemplateOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `wire.Encode.template_options` may hold."""

    add_generation_prompt: bool | None = None  # by default yes, unless the final message is continued
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] = {}  # further variables of the template


class Piece(NamedTuple):
    text: str
    literal: bool  # a special token's text that is meant as text


class ChatTemplate:
    """Args:
    source: the model's template; None if it has none, then every rendering fails.
    special_tokens: texts that only the template itself may turn into special tokens.

    Raises ConfigError if the template is no valid Jinja.
    """

    def __init__(
        self, source: str | None, *, bos_token: str = "", eos_token: str = "", special_tokens: Iterable[str] = ()
    ) -> None:
        longest_first = sorted(special_tokens, key=len, reverse=True)
        special = "|".join(map(re.escape, longest_first)) or "(?!)"
        self._special = re.compile(special)
        self._marked_special = re.compile(f"{LITERAL_START}({special}){LITERAL_END}|{LITERAL_START}|{LITERAL_END}")
        self._variables = {"bos_token": bos_token, "eos_token": eos_token}
        try:
            self._template = None if source is None else _environment().from_string(source)
        except jinja2.TemplateError as error:
            raise ConfigError(f"the model's chat template is not valid: {error}") from error

    def render(
        self,
        messages: Sequence[wire.ChatMessage],
        tools: Sequence[dict[str, Any]] | None = None,
        options: dict[str, Any] | None = None,
    ) -> list[Piece]:
        """The conversation as text, in pieces to be encoded one by one. Raises TemplateFailed."""
        if self._template is None:
            raise TemplateFailed("this model has no chat template; send a prompt instead of messages")
        if not messages:
            raise TemplateFailed("there are no messages")
        chosen = _template_options(options or {})
        try:
            text = self._render(self._template, messages, tools, chosen)
        except TemplateFailed:
            raise
        except Exception as error:  # whatever a template's code may raise on messages of a shape it does not expect
            words = MARKS.sub("", str(error))
            raise TemplateFailed(f"the model's chat template cannot show these messages: {words}") from error
        return self._pieces(text)

    def _render(
        self,
        template: jinja2.Template,
        messages: Sequence[wire.ChatMessage],
        tools: Sequence[dict[str, Any]] | None,
        options: TemplateOptions,
    ) -> str:
        chat = [self._marked(_plain(message)) for message in messages]
        if options.continue_final_message:
            chat[-1]["content"] += CONTINUE_HERE
        asked = options.add_generation_prompt
        variables = {
            "documents": None,
            **self._marked(options.chat_template_kwargs),
            **self._variables,
            "messages": chat,
            "tools": self._marked(tools),
            "add_generation_prompt": not options.continue_final_message if asked is None else asked,
        }
        text = template.render(variables)
        return _cut_at_mark(text) if options.continue_final_message else text

    def _marked(self, value: Any) -> Any:
        """The value with its special tokens wrapped in marks; keys stay as they are."""
        match value:
            case str():
                return self._special.sub(f"{LITERAL_START}\\g<0>{LITERAL_END}", MARKS.sub("", value))
            case dict():
                return {key: self._marked(item) for key, item in value.items()}
            case list() | tuple():
                return [self._marked(item) for item in value]
            case _:
                return value

    def _pieces(self, text: str) -> list[Piece]:
        """Split at the marks; a lone one (the template cut the string) is dropped but still separates."""
        parts = self._marked_special.split(text)  # text, marked token or None, text, marked token or None, ... text
        return [Piece(part, literal=index % 2 == 1) for index, part in enumerate(parts) if part]


def _template_options(options: dict[str, Any]) -> TemplateOptions:
    try:
        chosen = msgspec.convert(options, TemplateOptions)
    except msgspec.ValidationError as error:
        raise TemplateFailed(str(error), "chat_template_kwargs") from error
    if taken := RESERVED.intersection(chosen.chat_template_kwargs):
        raise TemplateFailed(f"{min(taken)!r} is not for the request to set", "chat_template_kwargs")
    if chosen.continue_final_message and chosen.add_generation_prompt:
        raise TemplateFailed(
            "add_generation_prompt and continue_final_message exclude each other", "continue_final_message"
        )
    return chosen


def _plain(message: wire.ChatMessage) -> dict[str, Any]:
    """As templates know it. A key whose value is null is left out: templates handle a missing key, not a null."""
    extra = {key: value for key, value in message.extra.items() if value is not None}
    return {**extra, "role": message.role, "content": message.content}


def _cut_at_mark(text: str) -> str:
    """Everything in front of the place where the final message is to be continued."""
    before, mark, after = text.rpartition(CONTINUE_HERE.strip())
    if not mark:
        raise TemplateFailed("the chat template does not show the final message as it is", "continue_final_message")
    return before if after.startswith(" ") else before.rstrip()


# --- the sandbox -----------------------------------------------------------------------------------------------------


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's part for training; here its body is simply shown."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


class _Namespace(jinja2.utils.Namespace):
    """Without underscore names, by which a template could reach the interpreter."""

    def __init__(*args: Any, **values: Any) -> None:  # so that a template may call it with self=
        self, *rest = args
        attributes = dict(*rest, **values)
        for name in attributes:
            _check_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(
        raise_exception=_raise_exception, strftime_now=_strftime_now, namespace=_Namespace, dict=_new_dict
    )
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object) -> None:
    raise TemplateFailed(MARKS.sub("", str(message)))


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _new_dict(*arguments: Any, **values: Any) -> dict[str, Any]:
    return dict(*arguments, **values)
