"""Keys that are made here are known to a gateway by their lines, and unknown to it once they are taken away."""

import stat

import pytest

from sapwood.commands import keys
from services.gateway.keyring import Keyring
from shared.api_keys import Key
from shared.config import GatewayConfig


@pytest.fixture
def file(tmp_path):
    return tmp_path / "keys"


@pytest.fixture
def new(file, capsys):
    """Makes a key in the file. The key, and what was said."""

    def make(name):
        assert keys.main(["new", name, "--file", str(file)]) == 0
        out, err = capsys.readouterr()
        return out.strip(), err

    return make


def known(file, *keys):
    ring = Keyring(GatewayConfig(api_keys_file=str(file)))
    return [ring.identify(key) is not None for key in keys]


def test_a_key_and_its_line(capsys):
    assert keys.main(["new", "alice"]) == 0
    out, err = capsys.readouterr()
    key, line = out.strip(), err.splitlines()[-1].strip()
    assert key.startswith("sk-sapwood-")
    assert key not in err
    assert Keyring(GatewayConfig(api_keys=(line,))).identify(key) is not None
    assert Key.read(line).name == "alice"


def test_what_goes_to_stdout_is_a_file_of_a_key(file, capsys):
    keys.main(["new", "admin"])
    file.write_text(capsys.readouterr().out, "utf-8")
    assert Keyring(GatewayConfig(admin_key_file=str(file))).identify(file.read_text("utf-8").strip()).is_admin


def test_into_a_file_that_is_its_owners_alone(file, new):
    made = [new(name)[0] for name in ("alice", "bob")]
    ring = Keyring(GatewayConfig(api_keys_file=str(file)))
    assert len({ring.identify(key).tenant for key in made}) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_second_key_of_a_name_is_told_of_and_the_old_one_goes_when_it_is_told_to(file, new, capsys):
    old, said = new("alice")
    assert "2 keys" not in said
    bobs, _ = new("bob")
    newer, said = new("alice")
    assert f"alice has 2 keys now; sapwood keys revoke alice --old --file {file}" in said
    assert known(file, old, newer, bobs) == [True, True, True]
    assert keys.main(["revoke", "alice", "--old", "--file", str(file)]) == 0
    assert "1 gone, 1 left of alice" in capsys.readouterr().err
    assert known(file, old, newer, bobs) == [False, True, True]
    assert keys.main(["revoke", "alice", "--old", "--file", str(file)]) == 1
    assert known(file, newer) == [True]


def test_all_keys_of_a_name_go(file, new):
    made = [new(name)[0] for name in ("alice", "bob", "alice")]
    assert keys.main(["revoke", "alice", "--file", str(file)]) == 0
    assert known(file, *made) == [False, True, False]


def test_whose_keys_there_are(file, new, capsys):
    made = [new(name)[0] for name in ("alice", "b" * 64)]
    with file.open("a") as more:
        more.write("# a comment\nSECRET\n")
    assert keys.main(["list", "--file", str(file)]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == ["alice", "b" * 64, "(no"]
    assert not any(key in shown for key in (*made, "SECRET"))


@pytest.mark.parametrize("command", [["new", "alice"], ["list"], ["revoke", "alice"]])
def test_a_file_that_cannot_be_used(tmp_path, capsys, command):
    assert keys.main([*command, "--file", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert (out, "directory" in err) == ("", True)


def test_a_name_that_has_no_key(file, new, capsys):
    new("alice")
    assert keys.main(["revoke", "alcie", "--file", str(file)]) == 1
    assert "is called alcie" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "a b", "a:", "a.b", "ä", "x" * 65])
def test_a_name_that_cannot_stand_in_a_file(name):
    with pytest.raises(SystemExit):
        keys.main(["new", name])
