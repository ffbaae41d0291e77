"""Workloads whose requests go on from earlier answers: a conversation, a search, agents."""

from __future__ import annotations

from .author import Author, Desk
from .program import Program, Prompt


def multi_turn(
    desk: Desk, scale: float, *, users: int = 6, turns: int = 12, system: int = 300, message: int = 40, answer: int = 40
) -> list[Program]:
    """Users talk in long conversations under one system prompt, and change the topic now and then."""
    writer = desk.author("system")
    opening = writer.message("system", writer.text(system))
    return [
        _conversation(desk.author("user", number), opening, turns, message, answer)
        for number in range(max(1, round(users * scale)))
    ]


def _conversation(author: Author, opening: list[int], turns: int, message: int, answer: int) -> Program:
    tokens, topic = opening, author.topic()
    for turn in range(turns):
        words = message
        content: list[int] = []
        if turn and author.source.random() < 0.3:
            topic = author.topic()
            content = author.encode(f"Something else: what do you know of {topic}? ")
        tokens = tokens + author.ask(content + author.text(max(0, words - len(content)), topic))
        [output] = yield [Prompt(tokens, answer)]
        tokens = tokens + output + author.end_answer()


def tree_of_thought(
    desk: Desk,
    scale: float,
    *,
    problems: int = 3,
    problem: int = 300,
    branches: int = 3,
    levels: int = 3,
    thought: int = 24,
) -> list[Program]:
    """Each problem is searched breadth first: every thought is forked into several next ones."""
    writer = desk.author("method")
    method = writer.message("system", writer.text(100))
    return [
        _search(desk.author("problem", number), method, problem, branches, levels, thought)
        for number in range(max(1, round(problems * scale)))
    ]


def _search(author: Author, method: list[int], problem: int, branches: int, levels: int, thought: int) -> Program:
    leaves = [method + author.ask(author.text(problem))]
    for level in range(1, levels + 1):
        options = [author.encode(f"Step {level}, option {option}: ") for option in range(1, branches + 1)]
        prompts = [leaf + option for leaf in leaves for option in options]
        outputs = yield [Prompt(prompt, thought) for prompt in prompts]
        leaves = [prompt + output for prompt, output in zip(prompts, outputs, strict=True)]


def agents(
    desk: Desk,
    scale: float,
    *,
    parallel: int = 8,
    rounds: int = 5,
    tools: int = 700,
    result: int = 60,
    action: int = 32,
) -> list[Program]:
    """Parallel agents under one system prompt that describes tools; each round brings an action and its result."""
    writer = desk.author("tools")
    system = writer.message("system", writer.encode("You may call these tools.\n") + writer.text(tools))
    return [
        _agent(desk.author("agent", number), system, rounds, result, action)
        for number in range(max(1, round(parallel * scale)))
    ]


def _agent(author: Author, system: list[int], rounds: int, result: int, action: int) -> Program:
    tokens = system + author.ask(author.text(30))
    for _ in range(rounds):
        [output] = yield [Prompt(tokens, action)]
        found = author.encode("The tool returned: ") + author.text(result)
        tokens = tokens + output + author.end_answer() + author.ask(found)
