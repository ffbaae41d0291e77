import asyncio

import pytest

from sapwood.commands import dashboard
from tests.support.served_gateway import serving
from tests.support.tiny_card import TINY_CARD


@pytest.fixture
def opened(monkeypatch):
    """What the browser was told to open."""
    found = []
    monkeypatch.setattr(dashboard.webbrowser, "open", found.append)
    return found


@pytest.fixture
def interrupted(monkeypatch):
    def serve(_server):
        raise KeyboardInterrupt

    monkeypatch.setattr(dashboard.DashboardServer, "serve_forever", serve)


@pytest.mark.parametrize("name", ["", "saved.log"])
def test_of_a_folder_or_a_file_until_it_is_interrupted(name, tmp_path, interrupted, opened, capsys):
    (tmp_path / "saved.log").touch()
    assert dashboard.main([str(tmp_path / name)]) == 0
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
    assert opened == []
    assert dashboard.main([str(tmp_path / name), "--open"]) == 0
    assert opened == [capsys.readouterr().out.strip()]


def test_a_place_that_is_not_there(tmp_path, capsys):
    assert dashboard.main([str(tmp_path / "none")]) == 1
    assert f"there is no {tmp_path / 'none'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("# A text\n", 1),
        ('2026-11-30 [info] ready service=gateway\n{"model": "m"}\n', 1),
        ('Installing\n{"event":"ready","service":"gateway"}\n', 0),
        ('{"at": 1, "event": "ready"}\n', 0),
        ("\n", 0),
    ],
)
def test_a_file_that_is_no_log(text, code, tmp_path, interrupted, capsys):
    (tmp_path / "file").write_text(text)
    assert dashboard.main([str(tmp_path / "file")]) == code
    assert (f"no log line in {tmp_path}/file" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize("port", ["-1", "70000"])
def test_no_port(port, tmp_path, capsys):
    assert dashboard.main([str(tmp_path), "--port", port]) == 1
    assert f"port {port}" in capsys.readouterr().err


async def test_of_a_server_its_own_page(served, opened, capsys):
    for url in (served.url, f"{served.url}/", f"{served.url}/dashboard"):
        assert await asyncio.to_thread(dashboard.main, [url]) == 0
        assert capsys.readouterr().out.strip() == f"{served.url}/dashboard"


async def test_of_a_server_that_will_ask_for_its_key(tmp_path, capsys):
    async with serving(tmp_path, TINY_CARD, api_keys=("sk-1",), admin_key="sk-root") as served:
        assert await asyncio.to_thread(dashboard.main, [served.url]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"{served.url}/dashboard"


async def test_of_a_server_that_has_none(served, capsys):
    assert await asyncio.to_thread(dashboard.main, [f"{served.url}/v1"]) == 69
    assert "HTTP 404" in capsys.readouterr().err


def test_no_server(capsys):
    assert dashboard.main(["http://127.0.0.1:9"]) == 69
    assert "no answer from http://127.0.0.1:9" in capsys.readouterr().err


def test_no_address(capsys):
    assert dashboard.main(["http://[::1"]) == 1
    assert capsys.readouterr().err.startswith("sapwood: ")
