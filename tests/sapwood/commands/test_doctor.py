import asyncio
import json

import httpx
import pytest

from sapwood import __version__
from sapwood.commands import doctor
from sapwood.commands.findings import as_json, failed, lines, ok, warning
from sapwood.commands.machine_checks import check_machine
from sapwood.commands.server_checks import check_server
from sapwood.commands.terminal import Paint

HEALTHY = {"version": __version__, "status": "healthy"}


def checked(answers):
    """By what each is about: the findings at a server that answers so."""

    def answer(request):
        found = answers.get(request.url.path, (200, HEALTHY))
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found[0], json=found[1])

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://server") as client:
        return {finding.about: finding for finding in check_server(client)}


async def test_a_server_that_is_well(served, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "missing_server_modules", lambda: ["torch"])  # the configuration is not looked over
    code = await asyncio.to_thread(doctor.main, ["--url", served.url, "--json"])
    said = json.loads(capsys.readouterr().out)
    by_subject = {finding["about"]: finding["level"] for finding in said["findings"]}
    assert (code, said["healthy"]) == (0, True)
    assert by_subject["versions"] == "skipped"
    assert {by_subject[about] for about in ("gateway", "server version", "stages", "a token")} == {"ok"}


def test_an_option_that_there_is_not_is_no_fault_of_the_deployment(capsys):
    with pytest.raises(SystemExit) as raised:
        doctor.main(["--bogus"])
    assert raised.value.code == 2
    assert "unrecognized arguments: --bogus" in capsys.readouterr().err


def test_where_no_server_is(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "missing_server_modules", lambda: ["torch"])
    assert doctor.main(["--url", "http://127.0.0.1:9"]) == 1
    assert "→ start one with `sapwood serve`" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "about", "level", "words"),
    [
        ({"/health": httpx.ConnectError("refused")}, "gateway", "failed", "refused"),
        ({"/health": (404, {})}, "gateway", "failed", "404"),
        ({"/health": (200, {"status": "healthy", "version": "0.0.1"})}, "server version", "warning", "0.0.1"),
        ({"/health": (200, {"status": "healthy"})}, "server version", "skipped", "key"),
        (
            {"/health": (503, HEALTHY | {"status": "unhealthy", "stages": {"executor": "none is connected"}})},
            *("executor", "failed", "none is connected"),
        ),
        ({"/ready": (503, {"status": "draining"})}, "stages", "failed", "draining"),
        ({"/health": (503, {"status": "unhealthy"})}, "stages", "failed", "unhealthy"),
        ({"/ready": (200, {"status": "ready"}), "/health_generate": (401, {})}, "a token", "skipped", "key"),
        ({"/health_generate": (503, {"stages": {"generation": "no token"}})}, "a token", "failed", "no token"),
    ],
)
def test_what_is_wrong_with_a_server(answers, about, level, words):
    found = checked({"/ready": (200, {"status": "ready"})} | answers)[about]
    assert found.level == level
    assert words in found.says
    assert found.fix


def test_a_clock_that_is_wrong():
    def answer(_request):
        return httpx.Response(200, json=HEALTHY, headers={"Date": "Mon, 01 Jan 2024 00:00:00 GMT"})

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://server") as client:
        found = {finding.about: finding for finding in check_server(client)}
    assert found["clock"].level == "warning"


@pytest.mark.parametrize(
    ("text", "level"),
    [("MemAvailable: 9000000 kB\n", "ok"), ("MemAvailable: 900 kB\n", "warning"), ("nothing", "skipped")],
)
def test_memory(tmp_path, text, level):
    (tmp_path / "meminfo").write_text(text, "ascii")
    found = {finding.about: finding for finding in check_machine([], memory=tmp_path / "meminfo")}
    assert found["memory"].level == level


def test_how_it_is_said():
    findings = [ok("disk", "plenty"), warning("cores", "one", "give it two")]
    assert lines(findings, Paint(False)) == [
        "ok       disk   plenty",
        "warning  cores  one",
        "                → give it two",
    ]
    assert json.loads(as_json(findings))["healthy"]
    assert not json.loads(as_json([*findings, failed("x", "y", "z")]))["healthy"]


def test_code_that_cannot_be_imported_is_found(tmp_path, monkeypatch):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "doctor.py").write_text("raise ImportError('libgomp is not there')", "utf-8")
    monkeypatch.setattr(doctor, "server_path", lambda: str(tmp_path))
    (tmp_path / "shared" / "__init__.py").touch()
    (found,) = doctor._check_configuration([])
    assert found.level == "failed"
    assert "libgomp" in found.says
