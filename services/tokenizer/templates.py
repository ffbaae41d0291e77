"""Chat templates: messages to text, as transformers' `apply_chat_template` does it (same sandbox, same settings).

Knows Jinja and one template, the operator's, compiled once. Knows no token ids, and never takes a template from a
request. A template that does not speak of tools is shown them, and calls, as plain text.

What a client wrote cannot pose as the template's own special tokens: a special token's text that comes from a message,
a tool or a template variable is a `Piece` of its own with `literal` set, which is to be encoded as plain text
(transformers' `sanitize_control_tokens`, for special tokens). See `own_tokens`; its marks are taken out of what a
client wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jinja2
import jinja2.meta
import jinja2.nodes
import msgspec

from services.tokenizer.jinja_sandbox import TemplateFailed, environment
from services.tokenizer.own_tokens import CONTINUE_MARK, OwnTokens, Piece, unmarked
from services.tokenizer.tool_text import ToolText
from shared import wire
from shared.config import ConfigError
from shared.tool_format import tool_format

CONTINUE_HERE = f"{CONTINUE_MARK} "  # the space shows whether the template trims its messages

SAMPLE = "A sample of a system message."
RESERVED = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
ANY_MODEL = frozenset({"enable_thinking", "thinking"})  # sent to every model; says nothing to one that does not think


class TemplateOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `wire.Encode.template_options` may hold."""

    add_generation_prompt: bool | None = None  # by default yes, unless the final message is continued
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] = {}  # further variables of the template


class ChatTemplate:
    """Args:
    source: the model's template; None if it has none, then every rendering fails.
    special_tokens: texts that only the template itself may turn into special tokens.

    Raises ConfigError if the template is no valid Jinja.
    """

    def __init__(
        self, source: str | None, *, bos_token: str = "", eos_token: str = "", special_tokens: Iterable[str] = ()
    ) -> None:
        self._own_tokens = OwnTokens(special_tokens)
        self._variables = {
            "bos_token": self._own_tokens.marked(bos_token),
            "eos_token": self._own_tokens.marked(eos_token),
        }
        self._may_set: frozenset[str] = ANY_MODEL
        self._template: jinja2.Template | None = None
        self._tool_text: ToolText | None = None  # what the template itself cannot show
        try:
            if source is not None:
                parsed = environment().parse(source)
                self._may_set |= jinja2.meta.find_undeclared_variables(parsed) - RESERVED
                self._own_tokens.mark(parsed)
                self._template = environment().from_string(parsed)
                if not _knows_tools(parsed):
                    self._tool_text = ToolText(tool_format(source), in_system=self._takes_system(self._template))
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
        chosen = _template_options(options or {}, self._may_set)
        try:
            if self._tool_text is not None:
                messages, tools = self._tool_text.rewrite(messages, tools), None
            text = self._render(self._template, messages, tools, chosen)
        except TemplateFailed as failed:
            raise TemplateFailed(unmarked(str(failed)), failed.param) from None
        except Exception as error:  # whatever a template's code may raise on messages of a shape it does not expect
            words = unmarked(str(error))
            raise TemplateFailed(f"the model's chat template cannot show these messages: {words}") from error
        return self._own_tokens.pieces(text)

    def _render(
        self,
        template: jinja2.Template,
        messages: Sequence[wire.ChatMessage],
        tools: Sequence[dict[str, Any]] | None,
        options: TemplateOptions,
    ) -> str:
        chat = [_without_marks(_plain(message)) for message in messages]
        if options.continue_final_message:
            chat[-1]["content"] += CONTINUE_HERE
        asked = options.add_generation_prompt
        variables = {
            "documents": None,
            **_without_marks(options.chat_template_kwargs),
            **self._variables,
            "messages": chat,
            "tools": _without_marks(tools),
            "add_generation_prompt": not options.continue_final_message if asked is None else asked,
        }
        text = template.render(variables)
        return _cut_at_mark(text) if options.continue_final_message else text

    def _takes_system(self, template: jinja2.Template) -> bool:
        """Some templates refuse one, and some leave it out."""
        messages = [wire.ChatMessage("system", SAMPLE), wire.ChatMessage("user", "x")]
        try:
            return SAMPLE in self._render(template, messages, None, TemplateOptions())
        except Exception:  # as in `render`
            return False


def _without_marks(value: Any) -> Any:
    """What a client wrote, its keys too."""
    match value:
        case str():
            return unmarked(value)
        case dict():
            return {_without_marks(key): _without_marks(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_marks(item) for item in value]
        case _:
            return value


def _knows_tools(template: jinja2.nodes.Template) -> bool:
    return any(name.name == "tools" for name in template.find_all(jinja2.nodes.Name))


def _template_options(options: dict[str, Any], may_set: frozenset[str]) -> TemplateOptions:
    try:
        chosen = msgspec.convert(options, TemplateOptions)
    except msgspec.ValidationError as error:
        raise TemplateFailed(str(error), "chat_template_kwargs") from error
    if foreign := chosen.chat_template_kwargs.keys() - may_set:
        raise TemplateFailed(_not_settable(unmarked(min(foreign))[:64], may_set), "chat_template_kwargs")
    if chosen.continue_final_message and chosen.add_generation_prompt:
        raise TemplateFailed(
            "add_generation_prompt and continue_final_message exclude each other", "continue_final_message"
        )
    return chosen


def _not_settable(name: str, may_set: frozenset[str]) -> str:
    reason = (
        "is what the server sets in this model's template"
        if name in RESERVED
        else "is unknown to this model's template"
    )
    taken = [*sorted(may_set - ANY_MODEL), f"{' and '.join(sorted(ANY_MODEL))} (as with any model)"]
    return f"{name!r} {reason}; it takes {', '.join(taken)}"


def _plain(message: wire.ChatMessage) -> dict[str, Any]:
    """As templates know it. A key whose value is null is left out: templates handle a missing key, not a null."""
    extra = {key: value for key, value in message.extra.items() if value is not None}
    return {**extra, "role": message.role, "content": message.content}


def _cut_at_mark(text: str) -> str:
    """Everything in front of the place where the final message is to be continued."""
    before, mark, after = text.rpartition(CONTINUE_MARK)
    if not mark:
        raise TemplateFailed("the chat template does not show the final message as it is", "continue_final_message")
    return before if after.startswith(" ") else before.rstrip()
