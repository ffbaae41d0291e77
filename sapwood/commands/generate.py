"""`sapwood generate PROMPT`: one prompt, one answer or several, with any constraint that the server knows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from sapwood.backends.protocol import Backend, GenerateRequest, Generation, Message
from sapwood.client import Client
from sapwood.commands import connection, sampling
from sapwood.commands.follow import following
from sapwood.commands.terminal import paint_for
from sapwood.errors import SapwoodError
from sapwood.loop import BACKGROUND


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    messages = [Message("system", arguments.system)] if arguments.system else []
    request = GenerateRequest(
        prompt=prompt if arguments.text else (*messages, Message("user", prompt)),
        sampling=sampling.sampling(arguments, arguments.samples),
    )
    try:
        with Client(arguments.url, api_key=arguments.api_key, max_retries=connection.MAX_RETRIES) as client:
            if arguments.json or arguments.samples > 1:
                _print_all(client.backend, request, as_json=arguments.json)
            else:
                _print_as_it_comes(client.backend, request)
    except SapwoodError as error:
        return connection.failed(error)
    except KeyboardInterrupt:
        print()
        return connection.EXIT_INTERRUPTED
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood generate", description="One prompt, one answer or several.")
    parser.add_argument("prompt", help="- for what stands on standard input")
    connection.add_arguments(parser)
    parser.add_argument("--text", action="store_true", help="go on with the text, instead of answering a message")
    parser.add_argument("--system", help="the message before the prompt")
    parser.add_argument("-n", "--samples", type=int, default=1, help="so many answers")
    parser.add_argument("--json", action="store_true", help="answers and token counts as JSON")
    sampling.add_arguments(parser)
    sampling.add_constraints(parser)
    arguments = parser.parse_args(argv)
    if arguments.text and arguments.system:
        parser.error("--system: a text has no messages")
    return arguments


def _print_as_it_comes(backend: Backend, request: GenerateRequest) -> None:
    seen = 0
    with following(backend, request) as generations:
        for generation in generations:
            print(generation.text[seen:], end="", flush=True)
            seen = len(generation.text)
    print()


def _print_all(backend: Backend, request: GenerateRequest, *, as_json: bool) -> None:
    answers = BACKGROUND.result(backend.generate(request))
    if as_json:
        found = msgspec.json.encode([_plain(answer) for answer in answers])
        print(msgspec.json.format(found).decode())
        return
    paint = paint_for(sys.stdout)
    for number, answer in enumerate(answers, 1):
        print(paint(f"── {number} ──", "dim"))
        print(answer.text)


def _plain(answer: Generation) -> dict[str, object]:
    names = ("text", "finish_reason", "prompt_tokens", "cached_tokens", "completion_tokens", "request_id")
    return {name: getattr(answer, name) for name in names}
