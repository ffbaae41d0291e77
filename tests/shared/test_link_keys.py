import stat

import pytest

from shared.config import ConfigError
from shared.launcher import main
from shared.link_keys import ROLES, load_keys, make_keys


@pytest.fixture
def folder(tmp_path):
    make_keys(tmp_path / "keys")
    return tmp_path / "keys"


def test_one_command_makes_a_folder_for_each_role(tmp_path):
    assert main(["link-keys", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_knows_every_public_key_and_its_own_secret_only(folder, role):
    keys = load_keys(folder, role)
    assert sorted(keys.roles.values()) == sorted(ROLES)
    assert keys.roles[keys.public] == role
    assert [path.name for path in (folder / role).glob("*.key_secret")] == [f"{role}.key_secret"]


def test_nobody_else_may_read_them(folder):
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*.key*")} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o700}


def test_making_them_again_changes_nothing(folder):
    before = {role: load_keys(folder, role) for role in ROLES}
    make_keys(folder)
    assert {role: load_keys(folder, role) for role in ROLES} == before


def test_a_lost_secret_is_made_anew_and_made_known(folder):
    before = load_keys(folder, "gateway").public_of("scheduler")
    for path in (folder / "scheduler").iterdir():
        path.unlink()
    make_keys(folder)
    after = load_keys(folder, "gateway").public_of("scheduler")
    assert after == load_keys(folder, "scheduler").public != before


def test_a_role_may_hold_several_keys_but_who_is_dialled_holds_one(folder, tmp_path):
    make_keys(tmp_path / "more")
    (folder / "gateway" / "executor-2.key").write_bytes((tmp_path / "more/executor/executor.key").read_bytes())
    keys = load_keys(folder, "gateway")
    assert list(keys.roles.values()).count("executor") == 2
    with pytest.raises(ConfigError, match="2 keys are listed for the executor"):
        keys.public_of("executor")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda own: (own / "tokenizer.key_secret").unlink(), "there is no .*tokenizer.key_secret; keys are made by"),
        (lambda own: [path.rename(own.parent / path.name) for path in own.iterdir()], "into a folder tokenizer in it"),
        (lambda own: (own / "tokenizer.key_secret").write_text("nothing"), "tokenizer.key_secret"),
        (lambda own: (own / "tokenizer.key_secret").write_bytes((own / "tokenizer.key").read_bytes()), "no secret key"),
        (lambda own: (own / "tokenizer.key_secret").chmod(0o604), "chmod 600"),
        (lambda own: (own / "gateway.key").write_bytes((own / "executor.key").read_bytes()), "once more"),
        (lambda own: (own / "gateway.key").rename(own / "gatekeeper.key"), "not named for a role"),
    ],
)
def test_what_is_wrong_is_named(folder, spoil, words):
    spoil(folder / "tokenizer")
    with pytest.raises(ConfigError, match=words):
        load_keys(folder, "tokenizer")
