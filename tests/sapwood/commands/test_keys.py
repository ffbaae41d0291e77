"""Keys that are made here are known to a gateway by their lines."""

import stat

import pytest

from sapwood.commands import keys
from services.gateway.keyring import Keyring
from shared.api_keys import Key
from shared.config import GatewayConfig


def test_a_key_and_its_line(capsys):
    assert keys.main(["new", "alice"]) == 0
    _, key, _, line = (text.strip() for text in capsys.readouterr().out.splitlines())
    assert key.startswith("sk-sapwood-")
    assert key not in line
    ring = Keyring.of(GatewayConfig(api_keys=(line,)))
    assert ring.identify(key) is not None
    assert Key.read(line).name == "alice"


def test_into_a_file_that_is_its_owners_alone(tmp_path, capsys):
    path = tmp_path / "keys"
    for name in ("alice", "bob"):
        assert keys.main(["new", name, "--file", str(path)]) == 0
    made = capsys.readouterr().out.split()
    ring = Keyring.of(GatewayConfig(api_keys_file=str(path)))
    assert len(made) == len({ring.identify(key).tenant for key in made}) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written(tmp_path, capsys):
    assert keys.main(["new", "alice", "--file", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert (out, "directory" in err) == ("", True)


@pytest.mark.parametrize("name", ["", "a b", "a:", "a.b", "ä", "x" * 65])
def test_a_name_that_cannot_stand_in_a_file(name):
    with pytest.raises(SystemExit):
        keys.main(["new", name])
