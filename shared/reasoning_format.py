"""How a model sets its thoughts apart from its answer: between tags, before it. Read from its chat template.

Knows the tags, and whether the prompt already ends with the first one. Does not know how thoughts are found in text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

OPENING, CLOSING = "<think>", "</think>"
NO_THOUGHT = re.compile(rf"{OPENING}(?:\s|\\n)*{CLOSING}")
SWITCHES = ("enable_thinking", "thinking")  # variables of templates


class ReasoningFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A model that may think. If the prompt has opened the thought, the output begins within it."""

    is_opened: bool = False
    switch: str | None = None  # the template's variable that turns thinking on and off
    is_on: bool = True  # without the switch

    def after(self, template_options: Mapping[str, Any], last_words: str) -> ReasoningFormat:
        """As it is behind a prompt made with these options.

        Args:
            last_words: of the conversation.
        """
        return msgspec.structs.replace(self, is_opened=self._opens(template_options, last_words))

    def _opens(self, template_options: Mapping[str, Any], last_words: str) -> bool:
        if template_options.get("continue_final_message"):
            return OPENING in last_words and CLOSING not in last_words.rpartition(OPENING)[2]
        variables = template_options.get("chat_template_kwargs") or {}
        is_on = variables.get(self.switch, self.is_on)
        return self.is_opened and bool(is_on) and template_options.get("add_generation_prompt") is not False


def reasoning_format(chat_template: str | None) -> ReasoningFormat | None:
    """None if the template knows no thoughts."""
    template = chat_template or ""
    if OPENING not in template:
        return None
    generation_prompt = NO_THOUGHT.sub("", template.rpartition("add_generation_prompt")[2])
    return ReasoningFormat(
        is_opened=OPENING in generation_prompt,
        switch=next((name for name in SWITCHES if name in template), None),
        is_on=CLOSING not in generation_prompt,  # else the template chooses, and by default it does not think
    )
