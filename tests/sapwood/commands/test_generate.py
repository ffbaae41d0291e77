import asyncio
import io
import json

import pytest

from sapwood.commands.generate import main
from shared import wire
from tests.support.served_gateway import serving
from tests.support.tiny_card import TINY_CARD


async def test_the_answer_is_printed(served, command):
    code, out, err = await command(main, "Who?", "--system", "Be kind.", "--max-tokens", "9", "--temperature", "0")
    assert (code, out, err) == (0, "Hello, world!\n", "")
    (encode,) = served.pipeline.encodes
    assert [(each.role, each.content) for each in encode.messages] == [("system", "Be kind."), ("user", "Who?")]
    assert (encode.max_new_tokens, encode.sampling.temperature) == (9, 0)


async def test_a_text_is_gone_on_with(served, command):
    await command(main, "Once", "--text")
    assert served.pipeline.encodes[0].prompt == "Once"


async def test_several_answers(command):
    _, out, _ = await command(main, "Who?", "-n", "2")
    assert out == "── 1 ──\nHello, world!\n── 2 ──\nHello, world!\n"


async def test_json(command):
    _, out, _ = await command(main, "Who?", "--json", "--seed", "3")
    (answer,) = json.loads(out)
    assert (answer["text"], answer["finish_reason"], answer["completion_tokens"]) == ("Hello, world!", "stop", 4)


async def test_a_prompt_on_standard_input(served, command, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("from a file"))
    await command(main, "-", "--text")
    assert served.pipeline.encodes[0].prompt == "from a file"


@pytest.mark.parametrize("option", ["--json-schema", "--ebnf"])
async def test_a_constraint_of_a_file(served, command, tmp_path, option):
    text = {"--json-schema": '{"type": "integer"}', "--ebnf": 'root ::= "a"'}[option]
    (tmp_path / "constraint").write_text(text)
    await command(main, "Who?", option, str(tmp_path / "constraint"))
    assert served.pipeline.encodes[0].constraint is not None


@pytest.mark.parametrize("option", [["--regex", "a+"], ["--choices", "a", "b"]])
async def test_a_constraint_of_the_command_line(served, command, option):
    await command(main, "Who?", *option)
    assert served.pipeline.encodes[0].constraint is not None


async def test_what_the_server_refuses_is_told(served, command):
    served.pipeline.encode_error = wire.Error("the prompt is too long", "context_length_exceeded", status=400)
    code, _, err = await command(main, "Who?")
    assert code == 1
    assert "the prompt is too long" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Who?", "--json-schema", "/no/such.json"], "/no/such.json"),
        (["Who?", "--regex", "a", "--choices", "b"], "not allowed with"),
        (["Who?", "--text", "--system", "Be kind."], "a text has no messages"),
    ],
)
def test_mistakes_are_named(arguments, said, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert said in capsys.readouterr().err


async def test_without_a_key_it_says_how_to_give_one(tmp_path, capsys):
    async with serving(tmp_path, TINY_CARD, api_keys=("sk-1",)) as served:
        assert await asyncio.to_thread(main, ["--url", served.url, "Hi"]) == 1
        err = capsys.readouterr().err
        assert (
            err == "sapwood: the server answers HTTP 401: it needs a key that it knows: --api-key or SAPWOOD_API_KEY\n"
        )
        assert await asyncio.to_thread(main, ["--url", served.url, "--api-key", "sk-1", "Hi"]) == 0
