import json

import pytest

from sapwood.commands.bench import main, report
from sapwood.commands.load.figures import figures_of
from sapwood.commands.load.reply import Reply
from sapwood.commands.terminal import Paint
from shared import wire
from tests.support.outside_api import answer, outside_api

SMALL = ("--requests", "5", "--concurrency", "2", "--prompt-tokens", "20", "--max-tokens", "4")


async def test_figures_of_a_server(served, command):
    code, out, err = await command(main, *SMALL, "--json", "--shared-tokens", "15")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert (figures["requests"], figures["failed"], figures["new_tokens"]) == (5, 0, 5 * 4)
    assert figures["hit_rate"] == pytest.approx(2 * 5 / figures["prompt_tokens"])
    assert figures["first_token_s"]["p50"] > 0
    prompts = [encode.prompt for encode in served.pipeline.encodes[1:]]
    assert len({tuple(prompt.split()[:15]) for prompt in prompts}) == 1
    assert {encode.max_new_tokens for encode in served.pipeline.encodes[1:]} == {4}


async def test_a_seed_gives_the_same_prompts(served, command):
    for _ in range(2):
        await command(main, *SMALL, "--seed", "3")
    prompts = sorted(encode.prompt for encode in served.pipeline.encodes)
    assert prompts[::2] == prompts[1::2]
    await command(main, *SMALL)
    assert len({encode.prompt for encode in served.pipeline.encodes}) == 1 + 5 + 5


async def test_the_table(command):
    code, out, _ = await command(main, *SMALL)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("5 requests, 2 at a time, in ")
    assert [line.split("  ")[0] for line in lines if line.startswith(("output", "first", "whole"))] == [
        *("output", "first token", "whole request")
    ]
    assert "\x1b" not in out


async def test_failures_are_counted_and_told(served, command):
    served.pipeline.reject_error = wire.Error("the queue is full", "overloaded", status=429)
    code, out, _ = await command(main, *SMALL)
    assert code == 1
    assert "5 failed: HTTP 429" in out.splitlines()[0]


def test_no_server(capsys):
    code = main(["--url", "http://127.0.0.1:9", *SMALL])
    assert code == 69
    assert "no answer from http://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--url", "localhost:1"], ["--requests", "0"], ["--shared-tokens", "256"]])
def test_mistakes_are_named(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_nothing_came():
    assert report(figures_of([Reply(0.0, error="no")], 1.0), 1, Paint(False))


@pytest.mark.parametrize(
    ("models", "said"), [(b"<html>", "no JSON"), (b"{}", "no JSON"), (b'{"data": []}', "no models")]
)
async def test_a_page_is_no_server(command, models, said):
    async with outside_api() as page:
        page.answers["/v1/models"] = answer(models)
        code, _, err = await command(main, *SMALL, "--url", page.url(""))
    assert code == 1
    assert said in err
