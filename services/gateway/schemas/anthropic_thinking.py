"""Anthropic's `thinking`: whether the model is to think, where its template can be told, and whether it is shown.

Without it the template decides, and thoughts are left out. A budget is not kept: `max_tokens` is what bounds thoughts.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from services.gateway.errors import InvalidRequest, within
from services.gateway.schemas.decode import convert
from shared.reasoning_format import ReasoningFormat


class ThinkingFields(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["disabled", "enabled", "adaptive"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] = "summarized"  # there is no summary: it is shown as it is


class Thinking(msgspec.Struct, frozen=True):
    is_shown: bool = False
    variables: dict[str, Any] = {}  # of the template


def read_thinking(raw: dict[str, Any] | None, reasoning: ReasoningFormat | None) -> Thinking:
    """Adaptive leaves it to the model, so one that does not think has done what it was asked."""
    if raw is None:
        return Thinking()
    with within("thinking"):
        fields = convert(raw, ThinkingFields)
        if reasoning is None and fields.type == "enabled":
            raise InvalidRequest("this model does not think", "type", "unsupported_parameter")
    is_shown = fields.type != "disabled" and fields.display != "omitted"
    if reasoning is None or reasoning.switch is None or fields.type == "adaptive":
        return Thinking(is_shown)
    return Thinking(is_shown, {reasoning.switch: fields.type == "enabled"})
