"""Whether a request's output may hold thoughts, and how they are set apart in it."""

from __future__ import annotations

from services.gateway.generation import GenerateRequest
from services.gateway.schemas.functions import Tools
from shared.reasoning_format import ReasoningFormat


def read_reasoning(reasoning: ReasoningFormat | None, request: GenerateRequest, tools: Tools) -> ReasoningFormat | None:
    """Of a request with messages. What must be of a form from its first word on holds no thoughts."""
    has_free_text = request.constraint is None or (tools.format is not None and tools.format.has_free_text)
    if reasoning is None or not has_free_text or not request.messages:
        return None
    return reasoning.after(request.template_options, request.messages[-1].content)
