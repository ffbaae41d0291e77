"""Valid requests of every route, and what chance makes of them: of their JSON, of a body's bytes, of their HTTP."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}}
ANTHROPIC_TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"a": {}}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x{1,3}", "maxLength": 3}}}
TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
SAMPLING = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.01, "frequency_penalty": 0.1, "seed": 7}

BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/generate", {"text": "Hello", "sampling_params": {"max_new_tokens": 2, "stop": ["z"], "n": 2, **SAMPLING}}),
    ("/generate", {"input_ids": [[5, 6], [7]], "max_new_tokens": 1, "return_logprob": True, "top_logprobs_num": 2}),
    ("/generate", {"text": "x", "rid": "r", "stream": True, "sampling_params": {"max_new_tokens": 2, "regex": "a+b"}}),
    ("/generate", {"messages": TALK, "max_new_tokens": 1, "extra_key": "k", "priority": 3, "logprob_start_len": 0}),
    ("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 2, "logprobs": 2, "echo": True, "n": 1, **SAMPLING}),
    (
        "/v1/completions",
        {"prompt": [5, 6, 7], "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}},
    ),
    ("/v1/chat/completions", {"messages": TALK, "max_tokens": 2, "logprobs": True, "top_logprobs": 2, "stop": "z"}),
    ("/v1/chat/completions", {"messages": TALK, "max_tokens": 2, "stream": True, "logit_bias": {"5": -1, "6": 2.5}}),
    ("/v1/chat/completions", {"messages": TALK, "max_tokens": 4, "tools": [TOOL], "tool_choice": "required"}),
    (
        "/v1/chat/completions",
        {
            "messages": TALK,
            "max_tokens": 4,
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        },
    ),
    ("/v1/messages", {"model": "default", "max_tokens": 2, "messages": TALK[1:], "system": "Be brief.", "top_k": 3}),
    (
        "/v1/messages",
        {"model": "default", "max_tokens": 2, "messages": TALK[1:], "stream": True, "tools": [ANTHROPIC_TOOL]},
    ),
    ("/v1/messages/count_tokens", {"model": "default", "messages": TALK[1:]}),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 16, "store": False, "instructions": "Be brief."}),
    (
        "/v1/responses",
        {"input": [{"role": "user", "content": "Hi"}], "max_output_tokens": 16, "stream": True, "metadata": {"a": "b"}},
    ),
    ("/tokenize", {"prompt": "Hello", "return_token_strs": True}),
    ("/tokenize", {"messages": TALK, "add_generation_prompt": True}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
    ("/abort_request", {"rid": "r"}),
)

GETS = ("/v1/models", "/model_info", "/cache?limit=3", "/flush_cache?timeout=0", "/v1/responses/resp_1?stream=false")

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 2**31, 2**40, 2**63, 2**70, -(2**63), 1.5, -0.0, 1e308, 5e-324),
    *(
        "",
        "x",
        "\0",
        "\ud800",
        "\udfff",
        "\u202e",
        "a\r\nb: c",
        "𝔘",
        "x" * 3000,
        "{{ 7 * 7 }}",
        "<|im_end|>",
        "default",
    ),
    *(
        "(a+)+",
        "(",
        "[^",
        "a{9}{9}{9}",
        "\\1",
        "root ::= root",
        "auto",
        "required",
        "none",
        "user",
        "tool",
        "assistant",
    ),
    *([], {}, [[]], [None], [0] * 200, ["x"] * 200, {"": {}}, {"type": "text"}, {"type": "json_object"}, {"$ref": "#"}),
    *({"type": "object", "additionalProperties": {"$ref": "#"}}, {"enum": []}, {"type": ["string", "null"]}),
    *(float("nan"), float("inf")),
)
TOKENS = (b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"\\ud800", b"1e999", b"NaN", b"null", b"\n")
HTTP_TOKENS = (
    *(b"\r\n", b"\r", b"\n", b"\0", b" ", b":", b"\xff", b"%zz", b"%00", b"//", b"HTTP/9.9", b"chunked", b"-1"),
    *(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n", b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n"),
    *(b"Content-Encoding: gzip\r\n", b"Connection: close\r\n", b"Host: y\r\n", b"X: " + b"y" * 9000 + b"\r\n"),
)
NAMES = sorted({name for _, body in BODIES for name in body} | {"regex", "ebnf", "json_schema", "tools", "background"})


def requests(random: Random, count: int) -> Iterator[bytes]:
    """Whole HTTP requests: of ten, six changed in their JSON, three in the bytes of the body, one in any byte."""
    for _ in range(count):
        kind = random.random()
        if kind < 0.9:
            path, body = random.choice(BODIES)
            changed = encoded(mutated(random, body)) if kind < 0.6 else mangled(random, encoded(body), TOKENS)
            yield request(path, changed)
        else:
            path, body = random.choice(BODIES)
            whole = request(path, encoded(body)) if random.random() < 0.6 else request(random.choice(GETS))
            yield mangled(random, whole, HTTP_TOKENS)


def request(path: str, body: bytes | None = None) -> bytes:
    if body is None:
        return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def mutated(random: Random, body: dict[str, Any]) -> Any:
    """A copy with a change or two, each somewhere in it."""
    changed: Any = copy.deepcopy(body)
    for _ in range(random.choice((1, 1, 2))):
        holder, key = random.choice(list(_places(changed))) if _is_filled(changed) else ({}, None)
        if key is None:
            return changed
        _change(random, holder, key)
    return changed


def mangled(random: Random, data: bytes, tokens: tuple[bytes, ...]) -> bytes:
    """With one to four changes: a stretch is gone, stands twice, follows something else, or the rest is gone."""
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice((1, 1, 2, 5, 30)))
        match random.randrange(6):
            case 0:
                data = data[:start] + data[end:]
            case 1:
                data = data[:end] + data[start:]
            case 2:
                data = data[:start]
            case 3:
                data = data[:start] + bytes([random.randrange(256)]) + data[end:]
            case _:
                data = data[:start] + random.choice(tokens) + data[start:]
    return data


def _change(random: Random, holder: Any, key: Any) -> None:
    match random.randrange(12):
        case 0:
            del holder[key]
        case 1:
            holder[key] = [holder[key]] * random.choice((1, 2, 300))
        case 2:
            holder[key] = _nested(holder[key], random.choice((2, 70, 250)))
        case 3 if isinstance(holder, dict):
            holder[random.choice(NAMES)] = holder.pop(key)
        case 4 if isinstance(holder, dict):
            _, other = random.choice(BODIES)
            name = random.choice(list(other))
            holder[name] = copy.deepcopy(other[name])
        case 5 | 6:
            holder[key] = copy.deepcopy(random.choice(HOSTILE))
        case _:  # of the same kind, which comes further
            alike = [value for value in HOSTILE if type(value) is type(holder[key])]
            holder[key] = copy.deepcopy(random.choice(alike or HOSTILE))


def _nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"a": value}
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container with each of its keys, not far down."""
    level = [value]
    for _ in range(8):
        for holder in level:
            yield from ((holder, key) for key in (holder if isinstance(holder, dict) else range(len(holder))))
        level = [inner for holder in level for inner in _inside(holder)]


def _inside(holder: Any) -> list[Any]:
    values = holder.values() if isinstance(holder, dict) else holder
    return [inner for inner in values if isinstance(inner, dict | list)]


def _is_filled(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)
