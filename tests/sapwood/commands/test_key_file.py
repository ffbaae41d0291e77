"""Lines of a file of keys come and go, and nothing else in it changes."""

from hypothesis import given
from hypothesis import strategies as st

from sapwood.commands.key_file import Entry, append, entries, remove

LINES = st.lists(
    st.sampled_from(["# a comment\n", "\n", "alice: one\n", "  alice: two  \n", "bob: three\r\n", "four\n"])
)


def test_a_line_is_an_entry_a_comment_or_nothing():
    found = [Entry.of(line) for line in ("alice:  sha256:ab\n", "sk:one", " # alice: one", "  \n")]
    assert found == [("alice", "sha256:ab"), ("(no name)", "sk:one"), None, None]


def test_a_file_whose_last_line_does_not_end(tmp_path):
    path = tmp_path / "keys"
    path.write_text("alice: one", "utf-8")
    append(path, "bob: two")
    append(path, "carol: three")
    assert path.read_text("utf-8") == "alice: one\nbob: two\ncarol: three\n"


def test_the_file_stays_the_same_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("alice: one\nbob: two\n", "utf-8")
    path.chmod(0o640)
    before = path.stat()
    remove(path, lambda entry: entry.name == "alice")
    after = path.stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert path.read_text("utf-8") == "bob: two\n"


@given(LINES)
def test_what_is_removed_is_gone_and_all_else_as_it_was(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "keys"
    path.write_bytes("".join(lines).encode())
    before = entries(path)
    remove(path, lambda entry: entry.name == "alice")
    assert entries(path) == [entry for entry in before if entry.name != "alice"]
    assert path.read_bytes().decode() == "".join(line for line in lines if not line.strip().startswith("alice"))
