import json
import sys
from xml.etree import ElementTree

import pytest

from sapwood.commands.trace import main

PROGRAMS = """
from sapwood import assistant, function, gen, user

@function
def plan(s, place="Rome"):
    s += user("Plan a trip to " + place)
    s += assistant(gen("plan", max_tokens=20))

def plain():
    with assistant() as a:
        a += user("Hello")
        a += gen("greeting")

number = 3
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    (tmp_path / "programs_to_draw.py").write_text(PROGRAMS)
    (tmp_path / "fails_at_import.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("programs_to_draw", "fails_at_import"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("place", ["programs_to_draw", "programs_to_draw.py", "./programs_to_draw.py"])
def test_a_program_of_a_module_or_file(place, capsys):
    assert main([f"{place}:plan", "--args", '{"place": "Paris"}']) == 0
    assert capsys.readouterr().out.splitlines() == [
        "plan",
        '· user       "Plan a trip to Paris"',
        "◆ assistant  gen plan  max_tokens=20",
    ]


@pytest.mark.usefixtures("programs")
def test_a_plain_function(capsys):
    assert main(["programs_to_draw:plain"]) == 0
    assert "gen greeting" in capsys.readouterr().out


@pytest.mark.usefixtures("programs")
def test_a_picture_and_json(capsys, tmp_path):
    assert main(["programs_to_draw:plan", "--svg", "plan.svg", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"][1]["label"] == "plan"
    assert ElementTree.parse(tmp_path / "plan.svg").getroot().tag.endswith("svg")


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("plan", "expected MODULE:FUNCTION"),
        ("no_such_module:plan", "there is no module no_such_module"),
        ("no_such_file.py:plan", "there is no file no_such_file.py"),
        ("programs_to_draw:nothing", "programs_to_draw has no nothing"),
        ("programs_to_draw:number", "is no function"),
        (".:plan", ". cannot be imported"),
        ("builtins:dict", "is no function"),
        ("fails_at_import.py:plan", "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_drawn_is_named(named, said, capsys):
    assert main([named]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("programs")
def test_a_picture_that_cannot_be_written(capsys):
    assert main(["programs_to_draw:plan", "--svg", "no/such/folder.svg"]) == 1
    assert "no/such/folder.svg: No such file" in capsys.readouterr().err


@pytest.mark.usefixtures("programs")
def test_arguments_are_an_object(capsys):
    with pytest.raises(SystemExit):
        main(["programs_to_draw:plan", "--args", "[1]"])
    assert "--args" in capsys.readouterr().err
