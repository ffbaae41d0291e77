import json

import pytest

from sapwood.commands import log

LINES = {
    "gateway.jsonl.1": [{"event": "received", "timestamp": "2026-11-30T11:00:00.000000Z", "request_id": "r1", "n": 1}],
    "gateway.jsonl": [
        {
            "event": "request",
            "timestamp": "2026-11-30T11:00:01.250000Z",
            "request_id": "r1",
            "status": 200,
            "error": None,
        },
        {"event": "request", "timestamp": "2026-11-30T11:00:00.500000Z", "request_id": "r2", "status": 200},
    ],
    "tokenizer-1.jsonl": [
        {"event": "encoded", "timestamp": "2026-11-30T11:00:00.004000Z", "request_id": "r1-0", "level": "info"}
    ],
}


@pytest.fixture
def logs(tmp_path):
    for name, lines in LINES.items():
        service = name.partition(".")[0]
        text = "".join(json.dumps({"event": line["event"], "service": service, **line}) + "\n" for line in lines)
        (tmp_path / name).write_text('no line about r1\n["r1"]\n{"r1": 1}\n' + text)
    return tmp_path


def test_one_request_s_lines_from_all_files_in_order(logs, capsys):
    assert log.main(["r1", str(logs)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2026-11-30T11:00:00.000000Z",
        "    0.000  gateway      received  n=1",
        "    0.004  tokenizer-1  encoded",
        "    1.250  gateway      request   status=200",
    ]


def test_as_they_are(logs, capsys):
    assert log.main(["r1", str(logs), "--json"]) == 0
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert events == ["received", "encoded", "request"]


def test_those_of_this_machine_s_server_by_default(logs, monkeypatch, capsys):
    monkeypatch.setattr(log, "local_logs", lambda port: logs / str(port))
    logs.joinpath("gateway.jsonl").rename(logs / "30000")
    assert log.main(["r2"]) == 0
    assert "request" in capsys.readouterr().out


@pytest.mark.parametrize(("request_id", "name", "said"), [("r3", "", "no line in"), ("r1", "none", "there is no")])
def test_what_is_not_there_is_said(logs, capsys, request_id, name, said):
    assert log.main([request_id, str(logs / name)]) == 1
    assert said in capsys.readouterr().err
