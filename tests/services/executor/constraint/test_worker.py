"""The real process on the bundled model's tokenizer: what is hostile is refused in time, and the next job works."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import psutil
import pytest
from llguidance import LLMatcher, LLTokenizer

from services.executor.constraint import worker
from services.executor.constraint.cache import GrammarCache
from services.executor.constraint.compiler import Compiler
from services.executor.constraint.engine import PANICKED, Grammar, load_tokenizer
from services.executor.constraint.job import Answer, Done, Interrupted, Job, TooComplex, Wrong
from services.executor.constraint.sandbox import Sandbox, worker_command
from services.executor.constraint.trial import TooSlow
from services.executor.model.prepare import prepare
from shared import wire
from shared.config import ConstraintsConfig, ModelConfig
from shared.constraints import key_of
from shared.model_card import load_card
from tests.services.executor.constraint.source.engine_bytes import byte_tokenizer

WIDE = ConstraintsConfig(max_repeat=10**8, max_enum_values=10**6, max_source_bytes=10**7)  # the front end lets it pass
BRIEF = msgspec.structs.replace(WIDE, compile_cpu_s=0.1)
NARROW = msgspec.structs.replace(WIDE, compile_memory_bytes=8 * 1024 * 1024)
FINE = wire.Constraint("regex", "[a-z]+@[a-z]+")


@pytest.fixture(scope="module")
def folder() -> Path:
    return prepare(ModelConfig())


@pytest.fixture
async def sandbox(folder: Path, caps: ConstraintsConfig) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(worker_command(folder), caps)
    yield sandbox
    await sandbox.close()


@pytest.fixture
async def compiler(folder: Path, sandbox: Sandbox) -> Compiler:
    card = load_card(ModelConfig())
    tokenizer = load_tokenizer(folder, card.vocab_size, card.eos_token_ids)
    return Compiler(GrammarCache(4_000_000), sandbox, partial(Grammar, tokenizer=tokenizer))


def schema(value: object) -> wire.Constraint:
    return wire.Constraint("json_schema", json.dumps(value))


def enum(count: int) -> wire.Constraint:
    return schema({"enum": [f"value {number}" for number in range(count)]})


HOSTILE = [
    wire.Constraint("regex", "((a{0,100}){0,100}){0,100}b"),
    wire.Constraint("regex", "(a?){500}a{500}"),
    wire.Constraint("regex", "(.*a.{8}b|.*c.{9}d|.*e.{10}f)"),
    wire.Constraint("regex", "("),
    wire.Constraint("regex", r"(a)\1"),
    wire.Constraint("regex", "a" * 5_000_000),
    wire.Constraint("ebnf", 'start: e\ne: e e e | e e | "a" | "b" |\n'),
    wire.Constraint("ebnf", "start: start\n"),
    wire.Constraint("ebnf", 'start: "a\0b"'),
    wire.Constraint("json_schema", "[" * 100_000),
    wire.Constraint("json_schema", '{"a":' * 20_000 + "1" + "}" * 20_000),
    schema({"$ref": "#"}),
    schema({"type": 7}),
    schema({"type": "string", "pattern": "^(a?){500}a{500}$"}),
    enum(100_000),
]


@pytest.mark.parametrize("caps", [ConstraintsConfig(), WIDE], ids=["by default", "past the front end"])
async def test_what_is_hostile_is_refused_and_the_next_one_works(compiler: Compiler, sandbox: Sandbox) -> None:
    for constraint in HOSTILE:
        error = await compiler.compile(constraint)
        assert error is not None, constraint.source[:60]
        assert (error.status, error.param and error.param.split(".")[0]) == (400, "constraint"), constraint.source[:60]
        assert error.message
        assert await compiler.compile(constraint) == error
    assert await compiler.compile(FINE) is None


@pytest.mark.parametrize("caps", [ConstraintsConfig()])
@pytest.mark.parametrize(
    "constraint",
    [
        wire.Constraint("regex", "(.*a){20}"),
        wire.Constraint("regex", "a\0b"),
        wire.Constraint("regex", "[一-龥]+😀"),
        wire.Constraint("json_object", ""),
        enum(1000),
        schema({"type": "object", "properties": {"next": {"$ref": "#"}}}),
    ],
)
async def test_what_only_looks_hostile_is_compiled(compiler: Compiler, constraint: wire.Constraint) -> None:
    assert await compiler.compile(constraint) is None


SLOW = schema({"oneOf": [{"const": f"value {number}"} for number in range(540)]})

MANY = wire.Constraint("choices", json.dumps([f"choice {number} of many" for number in range(100_000)]))


@pytest.mark.parametrize(
    ("caps", "constraint", "reason"),
    [
        (BRIEF, SLOW, "to compile and try it takes over 0.1 s of CPU time (constraints.compile_cpu_s)"),
        (NARROW, MANY, "compiling it takes over 8 MiB"),
    ],
)
async def test_cpu_time_and_memory_are_limited(sandbox: Sandbox, constraint: wire.Constraint, reason: str) -> None:
    assert await sandbox.run(constraint) == TooComplex(f"the constraint is too complex: {reason}")
    assert isinstance(await sandbox.run(FINE), Done)


@pytest.mark.parametrize(
    ("grammar", "answer"),
    [
        (
            "start: /a{5/",
            Wrong(
                'line 1, column 8: invalid regex "a{5" (in regex): regex parse error: '
                "error: unclosed counted repetition"
            ),
        ),
        ('start: "a" %ignore', Wrong("line 1, column 12: Expected value")),
        (
            'start: "a" start',
            TooComplex(
                "the constraint is too complex: it leaves no choice for too long, as where no output can ever end"
            ),
        ),
    ],
)
def test_the_engines_words_are_put_into_a_clients(grammar: str, answer: Answer) -> None:
    assert worker.answer(Job(wire.Constraint("ebnf", grammar), ConstraintsConfig()), byte_tokenizer()) == answer


def test_what_was_slow_once_has_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Grammar] = []

    def slow(times: int) -> Answer:
        def walk_about(grammar: Grammar, tokenizer: LLTokenizer) -> None:
            tries.append(grammar)
            if len(tries) <= times:
                raise TooSlow("slow")

        monkeypatch.setattr(worker, "walk_about", walk_about)
        return worker.answer(Job(FINE, ConstraintsConfig()), byte_tokenizer())

    assert isinstance(slow(1), Done)
    assert tries[0] is not tries[1], "the first has learned on the way"
    tries.clear()
    assert slow(2) == Interrupted("the constraint is too complex: slow")


def test_a_panic_of_the_engine_refuses_the_constraint(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """As Rust libraries raise it."""

    def walk_about(grammar: Grammar, tokenizer: LLTokenizer) -> None:
        raise Panic("src/lexer.rs:17")

    monkeypatch.setattr(worker, "walk_about", walk_about)
    assert worker.answer(Job(FINE, ConstraintsConfig()), byte_tokenizer()) == Wrong(PANICKED)


@pytest.mark.parametrize("caps", [ConstraintsConfig()])
async def test_a_worker_that_is_killed_in_a_job_costs_nobody_an_answer(compiler: Compiler, sandbox: Sandbox) -> None:
    assert await compiler.compile(FINE) is None
    asked = asyncio.create_task(compiler.compile(wire.Constraint("regex", "(.*a){20}")))
    pid = sandbox.pid
    assert pid is not None
    async with asyncio.timeout(20):
        while psutil.Process(pid).status() == psutil.STATUS_SLEEPING:
            await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    assert await asked is None
    assert sandbox.pid != pid


@pytest.mark.parametrize("caps", [ConstraintsConfig()])
async def test_the_text_that_comes_out_is_a_grammar(sandbox: Sandbox) -> None:
    answer = await sandbox.run(FINE)
    assert isinstance(answer, Done)
    assert LLMatcher.validate_grammar(answer.text) == ""


@pytest.mark.parametrize("caps", [ConstraintsConfig()])
async def test_many_different_schemas_leave_memory_and_processes_as_they_were(
    compiler: Compiler, sandbox: Sandbox
) -> None:
    for number in range(300):
        assert await compiler.compile(schema({"properties": {f"key {number}": {"type": "integer"}}})) is None
    assert len(compiler._cache) < 40
    assert compiler._cache.get(key_of(FINE)) is None
    assert sandbox.pid is not None
    assert psutil.Process(sandbox.pid).memory_info().rss < 400 * 1024 * 1024
    workers = [
        child for child in psutil.Process().children() if any("constraint.worker" in word for word in child.cmdline())
    ]
    assert [worker.pid for worker in workers] == [sandbox.pid]


@pytest.mark.parametrize("caps", [ConstraintsConfig()])
async def test_it_starts_without_torch_and_numpy(sandbox: Sandbox) -> None:
    await sandbox.run(FINE)
    assert sandbox.pid is not None
    mapped = {Path(region.path).name for region in psutil.Process(sandbox.pid).memory_maps()}
    assert not [name for name in mapped if "torch" in name or "multiarray" in name]


def test_it_ends_when_nobody_can_ask_it_any_more(folder: Path) -> None:
    ended = subprocess.run(
        worker_command(folder), stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
