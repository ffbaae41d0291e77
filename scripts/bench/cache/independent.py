"""Workloads of single questions: whatever they share is in the prompts from the start."""

from __future__ import annotations

from collections.abc import Iterable

from .author import Author, Desk
from .program import Program, one_request


def few_shot(
    desk: Desk, scale: float, *, sets: int = 6, examples: int = 16, questions: int = 16, answer: int = 8
) -> list[Program]:
    """Many questions, each behind one of a few sets of examples, in no order."""
    heads = [_examples(desk.author("set", number), examples) for number in range(max(1, round(sets * scale)))]
    prompts = [
        head + _question(desk.author("question", number, n))
        for number, head in enumerate(heads)
        for n in range(questions)
    ]
    return _shuffled(desk, prompts, answer)


def _examples(author: Author, count: int) -> list[int]:
    tokens = author.text(20) + author.encode("\n\n")
    for _ in range(count):
        tokens += _question(author) + author.text(10) + author.encode("\n\n")
    return tokens


def _question(author: Author) -> list[int]:
    return author.encode("Question: ") + author.text(20) + author.encode("\nAnswer: ")


def long_document(
    desk: Desk, scale: float, *, documents: int = 2, document: int = 2000, questions: int = 16, answer: int = 16
) -> list[Program]:
    """Many questions about each of two documents."""
    prompts = []
    for number in range(max(1, round(documents * scale))):
        text = desk.author("document", number).text(document)
        for n in range(questions):
            author = desk.author("question", number, n)
            prompts.append(author.message("system", text) + author.ask(author.text(20)))
    return _shuffled(desk, prompts, answer)


def shared_prefixes(
    desk: Desk, scale: float, *, groups: int = 16, prompts: int = 6, prefix: int = 384, tail: int = 40, answer: int = 8
) -> list[Program]:
    """Groups of prompts, each group with a prefix of its own, in no order."""
    made = []
    for group in range(max(1, round(groups * scale))):
        head = desk.author("prefix", group).text(prefix)
        made += [head + desk.author("tail", group, number).text(tail) for number in range(prompts)]
    return _shuffled(desk, made, answer)


def no_sharing(
    desk: Desk, scale: float, *, prompts: int = 48, tokens: int = 300, answer: int = 16, first_id: int = 1000
) -> list[Program]:
    """The control: no two prompts have even the first token in common."""
    return [
        one_request([first_id + number, *desk.author("prompt", number).text(tokens - 1)], answer)
        for number in range(max(1, round(prompts * scale)))
    ]


def _shuffled(desk: Desk, prompts: Iterable[list[int]], answer: int) -> list[Program]:
    programs = [one_request(prompt, answer) for prompt in prompts]
    desk.author("order").source.shuffle(programs)
    return programs
