"""The kinds of structured output that are asked for, and who says whether an answer is one: never our own code.

Python's `re` for patterns, `jsonschema` for schemas, `lark` for grammars. Knows requests and replies, no server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jsonschema
import lark

from scripts.bench.structured import schemas
from scripts.bench.structured.schemas import Schema

Json = dict[str, Any]
SUBJECTS = (
    "a baker in Lyon", "a train driver", "two friends on a hike", "an old lighthouse", "a broken bicycle",
    "a library at night", "a lost parcel", "the first day of school", "a storm at sea", "a small restaurant",
)  # fmt: skip

MIN_P = 0.2  # of the likeliest token's probability: what is less likely is noise, in so small a model
EXAMPLE_SUBJECTS = ("a gardener in Kyoto", "a red balloon", "an empty station", "a dog in the snow", "a late bus")

SUM_GRAMMAR = """
start: sum
sum: product (("+" | "-") product (("+" | "-") product)?)?
product: atom (("*" | "/") atom)?
atom: NUMBER | "(" sum ")"
NUMBER: /[0-9]{1,3}/
"""
DATE_GRAMMAR = r"""root ::= day " " month " " year
day ::= [1-9] | [12] [0-9] | "30"
month ::= "January" | "May" | "July" | "October"
year ::= "19" [0-9] [0-9] | "20" [0-9] [0-9]
"""
DATE_PATTERN = "([1-9]|[12][0-9]|30) (January|May|July|October) (19|20)[0-9]{2}"
EMAIL = r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,32}(\.[A-Za-z0-9-]{1,32}){0,2}\.[A-Za-z]{2,12}"
IPV4 = r"((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d)"
PERSON = r'\{\s*"name"\s*:\s*"[^"]+"\s*,\s*"age"\s*:\s*\d+\s*,\s*"city"\s*:\s*"[^"]+"\s*\}'
STATUS = r'\{"status": ("success"|"error"), "data": \{.*\}, "code": [0-9]+\}'
CARRIER = r'{"carrier": "[^"]+", "status": "[^"]+", "eta": "[^"]+"}'
EMOJI = "(😀|😢|🎉|👩‍🚀|🇫🇷)( (😀|😢|🎉|👩‍🚀|🇫🇷)){0,5}"
HANZI = "[一-龥]{2,12}[。！]"
CHOICES = ["track", "refund", "address", "address change", "other"]


@dataclass(frozen=True)
class Kind:
    name: str
    task: str  # what the model is told, before the subject
    examples: tuple[str, ...]  # of answers, since the model is small
    most_tokens: int  # a fair limit
    fields: Json  # of the request: the constraint
    check: Callable[[Json], None]  # raises for an answer that is none, given the reply's message

    def body(self, subject: str, temperature: float, seed: int) -> Json:
        return {
            "model": "default",
            "messages": [*self._turns(), self._question(subject)],
            "max_tokens": self.most_tokens,
            "temperature": temperature,
            "min_p": MIN_P,
            "seed": seed,
            **self.fields,
        }

    def _turns(self) -> Iterator[Json]:
        for subject, answer in zip(EXAMPLE_SUBJECTS, self.examples, strict=False):
            yield self._question(subject)
            yield {"role": "assistant", "content": answer}

    def _question(self, subject: str) -> Json:
        return {"role": "user", "content": f"{self.task} It is about {subject}."}


def _matches(pattern: str, message: Json) -> None:
    if re.fullmatch(pattern, message["content"]) is None:
        raise ValueError("re does not match")


def _validates(schema: Schema, message: Json) -> None:
    jsonschema.validate(json.loads(message["content"]), schema, format_checker=jsonschema.FormatChecker())


def _parses(message: Json) -> None:
    lark.Lark(SUM_GRAMMAR).parse(message["content"])


def _is_choice(message: Json) -> None:
    if message["content"] not in CHOICES:
        raise ValueError("no choice")


def _calls(tools: dict[str, Schema], message: Json) -> None:
    calls = message["tool_calls"]
    if not calls:
        raise ValueError("no call")
    for call in calls:
        jsonschema.validate(json.loads(call["function"]["arguments"]), tools[call["function"]["name"]])


def _pattern(name: str, task: str, pattern: str, most_tokens: int, *examples: str) -> Kind:
    return Kind(name, task, examples, most_tokens, {"regex": pattern}, partial(_matches, pattern))


def _schema(name: str, task: str, schema: Schema, most_tokens: int, example: Any) -> Kind:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    text = json.dumps(example, ensure_ascii=False)
    return Kind(name, task, (text,), most_tokens, {"response_format": form}, partial(_validates, schema))


_TOOLS = {"get_weather": schemas.WEATHER, "refund_order": schemas.REFUND}
_TOOL_FIELDS = {
    "tool_choice": "required",
    "tools": [
        {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}
        for name, parameters in _TOOLS.items()
    ],
}
_CALL = """<tool_call>
{"name": "get_weather", "arguments": {"city": "Kyoto", "unit": "celsius", "days": 2}}
</tool_call>"""

KINDS = (
    _pattern(
        "regex: name, age, city", "Describe a person in one short line of JSON.", PERSON, 300,
        '{"name": "Aiko", "age": 34, "city": "Kyoto"}',
    ),
    _pattern(
        "regex: status, data, code", "Count it: status, data with the count, code.", STATUS, 400,
        '{"status": "success", "data": {"count": 12}, "code": 200}',
        '{"status": "error", "data": {"count": 0}, "code": 404}',
        '{"status": "success", "data": {"count": 3}, "code": 200}',
        '{"status": "success", "data": {"count": 7}, "code": 201}',
        '{"status": "error", "data": {"count": 1}, "code": 500}',
    ),
    _pattern(
        "regex: carrier", "Reply with a short tracking record.", CARRIER, 300,
        '{"carrier": "DHL", "status": "on its way", "eta": "Monday"}',
    ),
    _pattern("regex: e-mail", "Give one e-mail address, nothing else.", EMAIL, 300, "aiko@example.com", "red@mail.net",
             "info@station.org", "rex@snow.com"),
    _pattern("regex: IPv4", "Give one IPv4 address.", IPV4, 40, "192.168.0.17"),
    _pattern("regex: Chinese", "用中文回答，一句话。", HANZI, 60, "她在花园里工作。"),
    _pattern("regex: emoji", "Answer in emoji.", EMOJI, 60, "😀 🎉"),
    _schema("schema: 42 properties", "Fill in an order.", schemas.ORDER, 900, schemas.ORDER_EXAMPLE),
    _schema(
        "schema: recursive $ref", "Draw a small tree of ideas as JSON.", schemas.TREE, 900,
        {"label": "garden", "children": [{"label": "moss", "children": []}, {"label": "stones", "children": []}]},
    ),
    _schema(
        "schema: nested arrays", "Make up a table of numbers.", schemas.MATRIX, 300, [[[1, 2], [3]], [[4], [5, 6]]]
    ),
    _schema(
        "schema: Chinese", "用JSON描述一个人。", schemas.CHINESE, 120, {"姓名": "王小明", "年龄": 34, "城市": "杭州"}
    ),
    Kind(
        "json_object", "Give its name and color as JSON.",
        ('{"name": "Aiko", "color": "green"}', '{"name": "balloon", "color": "red"}'),
        600,
        {"response_format": {"type": "json_object"}}, partial(_validates, {"type": "object"}),
    ),
    Kind("EBNF: Lark", "Write an arithmetic expression.", ("(3+4)*2", "7-2"), 300, {"ebnf": SUM_GRAMMAR}, _parses),
    Kind("EBNF: GBNF", "Write a date.", ("14 May 1987",), 40, {"ebnf": DATE_GRAMMAR}, partial(_matches, DATE_PATTERN)),
    Kind(
        "choices", "Which of these is it: track, refund, address, address change or other?", ("other",), 20,
        {"choices": CHOICES}, _is_choice,
    ),
    Kind("tools", "Use a tool.", (_CALL,), 400, _TOOL_FIELDS, partial(_calls, _TOOLS)),
)  # fmt: skip
