import asyncio

import httpx
import pytest

from sapwood.commands import top
from tests.support.outside_api import answer, outside_api
from tests.support.served_gateway import serving
from tests.support.tiny_card import TINY_CARD


async def test_once(served, command):
    await served.post("/generate", {"text": "abc"})
    code, out, err = await command(top.main, "--once")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"sapwood top · {served.url}"
    assert next(line.split() for line in lines if line.startswith("output")) == ["output", "–", "4"]
    assert any(line.startswith("KV") and "120 tokens" in line for line in lines)


async def test_a_server_without_metrics(served, command, monkeypatch):
    code, _, err = await command(top.main, "--once", "--url", f"{served.url}/nothing")
    assert code == 69
    assert "/nothing/metrics answers HTTP 404" in err


@pytest.mark.parametrize(("key", "status"), [([], 401), (["--api-key", "sk-1"], 403)])
async def test_without_the_admin_key_it_says_how_to_give_it(tmp_path, capsys, key, status):
    async with serving(tmp_path, TINY_CARD, api_keys=("sk-1",), admin_key="sk-root") as served:
        assert await asyncio.to_thread(top.main, ["--url", served.url, "--once", *key]) == 1
        said = f"{served.url}/metrics answers HTTP {status}: it needs the admin key: --api-key or SAPWOOD_API_KEY"
    assert capsys.readouterr().err == f"sapwood: {said}\n"


def test_it_follows_until_it_is_interrupted(monkeypatch, capsys):
    """Two looks with time between them; then the terminal is as it was."""
    texts = iter(["sapwood_decode_tokens_total 10", "sapwood_decode_tokens_total 30", KeyboardInterrupt])
    times = iter([0.0, 4.0])

    def answer(_request):
        text = next(texts)
        if not isinstance(text, str):
            raise text
        return httpx.Response(200, text=text)

    slept = []
    monkeypatch.setattr(top.time, "sleep", slept.append)
    monkeypatch.setattr(top.time, "monotonic", lambda: next(times))
    arguments = top._parse(["--interval", "4"])
    with (
        httpx.Client(transport=httpx.MockTransport(answer), base_url="http://server") as client,
        pytest.raises(KeyboardInterrupt),
    ):
        top._follow(client, arguments)
    out = capsys.readouterr().out
    assert out.startswith(top.ENTER)
    assert out.endswith(top.LEAVE)
    assert "5/s" in out
    assert slept == [4.0, 4.0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interval", "-1"], "more than 0"),
        (["--interval", "nan"], "more than 0"),
        (["--url", "http://[::1"], "http://[::1"),
        (["--api-key", "ключ"], "ASCII"),
    ],
)
def test_mistakes_are_named(arguments, said, capsys):
    with pytest.raises(SystemExit):
        top.main(arguments)
    assert said in capsys.readouterr().err


async def test_a_page_is_no_server(command):
    async with outside_api(metrics=answer(b"<html>")) as page:
        code, out, err = await command(top.main, "--once", "--url", page.url(""))
    assert (code, out) == (1, "")
    assert "has no figures of a Sapwood server" in err
