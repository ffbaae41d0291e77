"""The fields about how the model's template shows a conversation, by the names that the tokenizer knows them by."""

from __future__ import annotations

from typing import Any, Protocol

from services.gateway.schemas.constraint import check_sendable
from shared.config import ConstraintsConfig


class TemplateFields(Protocol):
    @property
    def chat_template_kwargs(self) -> dict[str, Any] | None: ...  # further variables of the model's template

    @property
    def add_generation_prompt(self) -> bool | None: ...  # by default yes, unless the final message is continued

    @property
    def continue_final_message(self) -> bool: ...


def template_options(fields: TemplateFields, caps: ConstraintsConfig) -> dict[str, Any]:
    """Those that say something."""
    given = {
        "chat_template_kwargs": fields.chat_template_kwargs or None,
        "add_generation_prompt": fields.add_generation_prompt,
        "continue_final_message": fields.continue_final_message or None,
    }
    if fields.chat_template_kwargs:
        check_sendable(fields.chat_template_kwargs, "chat_template_kwargs", caps)
    return {name: value for name, value in given.items() if value is not None}
