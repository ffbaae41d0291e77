"""The cases of `tests/integration/api_cases.json`: requests that servers have got wrong, and what is right.

refused: the request, and each of it with the fields of `also`, gets an error of this status, `param` and `code`.
outputs: what a scripted executor emits, in the tokens that the model would use and one byte a token. `fault`: and then.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer

from services.gateway.limits import Limits
from services.gateway.open_request import OpenRequest
from services.gateway.schemas.call import Terms
from services.gateway.schemas.chat import read_chat
from services.gateway.schemas.completions import read_completion
from services.tokenizer.encode import Encoder
from shared import wire
from shared.config import Config
from shared.tool_format import tool_format
from tests.support.scripted_executor import Fault, Rule

FILE = Path(__file__).parent.parent / "integration" / "api_cases.json"
READERS = {"/v1/chat/completions": read_chat, "/v1/completions": read_completion}
PLACES = {
    "$MODEL": "SmolLM2-135M-Instruct",
    "$LONG_PREFIX": "long shared prefix " * 150,
    "$PROMPT_LONGER_THAN_MAX_MODEL_LEN": "word " * 9000,
}


class Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    status: int
    param: str | None = None
    code: str | None = None


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    kind: str
    endpoint: str
    request: dict[str, Any]
    expected: str  # for people; the tests say it again
    refused: Refusal | None = None
    also: tuple[dict[str, Any], ...] = ()
    outputs: tuple[str, ...] = ()
    fault: Fault | None = None

    def body(self, **places: str) -> dict[str, Any]:
        """The request with its places filled, of which `$PROMPT` is one."""
        filled: dict[str, Any] = _filled(self.request, PLACES | {f"${name}": text for name, text in places.items()})
        return filled


class Script(msgspec.Struct, frozen=True):
    """One output of a case: this body is answered with this text."""

    case: Case
    body: dict[str, Any]
    text: str
    tokens: tuple[int, ...]

    def rule(self, encoder: Encoder) -> Rule:
        terms = Terms(Limits.of(Config(), encoder.card), tool_format(encoder.card.chat_template), "", lambda: 1)
        request = READERS[self.case.endpoint](msgspec.json.encode(self.body), terms).parts[0].request
        submit = encoder.encode(OpenRequest("r", request, 0, 0).encode(0), "gw")
        assert isinstance(submit, wire.Submit), submit
        return Rule(match=submit.prompt_token_ids, tokens=self.tokens, fault=self.case.fault)


def load_cases() -> dict[str, Case]:
    return {case.id: case for case in msgspec.json.decode(FILE.read_bytes(), type=list[Case])}


def scripts_of(case: Case, tokenizer: Tokenizer) -> list[Script]:
    """Each output in both kinds of tokens. The prompts, which nothing else matters of, tell them apart."""
    found = []
    for number, text in enumerate(case.outputs):
        for kind, tokens in (("tokens", tokenizer.encode(text).ids), ("bytes", one_byte_each(tokenizer, text))):
            body = case.body(PROMPT=f"Script of {case.id}, {number}, {kind}.")
            found.append(Script(case, body, text, tuple(tokens)))
    return found


def one_byte_each(tokenizer: Tokenizer, text: str) -> list[int]:
    """A byte-level tokenizer spells a byte as one letter, and each letter is a token."""
    spelt = tokenizer.pre_tokenizer.pre_tokenize_str(text)
    return [tokenizer.token_to_id(letter) for word, _ in spelt for letter in word]


def _filled(value: Any, places: dict[str, str]) -> Any:
    match value:
        case str():
            return places.get(value, value)
        case list():
            return [_filled(each, places) for each in value]
        case dict():
            return {key: _filled(each, places) for key, each in value.items()}
        case _:
            return value
