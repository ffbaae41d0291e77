import pytest

from sapwood.dashboard.log_reader import LONGEST_LINE, LogReader


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "logs"


@pytest.fixture
def reader(folder):
    folder.mkdir()
    made = LogReader(folder)
    yield made
    made.close()


def lines(reader):
    return [line.decode() for portion in reader.read() for line in portion]


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def test_each_line_once_whatever_file_it_comes_in(folder, reader):
    append(folder / "a.jsonl", "a1\na2\n")
    assert lines(reader) == ["a1", "a2"]
    assert lines(reader) == []
    append(folder / "a.jsonl", "a3\n")
    append(folder / "b.jsonl", "b1\n")
    append(folder / "notes.txt", "no log\n")
    assert lines(reader) == ["a3", "b1"]


def test_a_line_is_read_when_it_has_ended(folder, reader):
    append(folder / "a.jsonl", "half")
    assert lines(reader) == []
    append(folder / "a.jsonl", " a line\nnext")
    assert lines(reader) == ["half a line"]


def test_a_rotated_file_is_read_to_its_end(folder, reader):
    path = folder / "a.jsonl"
    append(path, "1\n")
    assert lines(reader) == ["1"]
    append(path, "2\n")
    path.rename(folder / "a.jsonl.1")
    append(path, "3\n")
    assert lines(reader) == ["2", "3"]
    path.rename(folder / "a.jsonl.1")
    append(folder / "a.jsonl.1", "4\n")
    assert lines(reader) == ["4"]
    append(path, "5\n")
    assert lines(reader) == ["5"]


def test_what_was_rotated_before_comes_first(folder, reader):
    append(folder / "a.jsonl", "2\n")
    append(folder / "a.jsonl.1", "1\n")
    assert lines(reader) == ["1", "2"]


def test_a_file_that_was_cut_is_begun_again(folder, reader):
    append(folder / "a.jsonl", "first\nsecond\nhalf")
    assert lines(reader) == ["first", "second"]
    (folder / "a.jsonl").write_text("new\n")
    assert lines(reader) == ["new"]


def test_of_a_long_history_the_end_is_read_from_a_whole_line_on(folder):
    folder.mkdir()
    append(folder / "a.jsonl", "".join(f"line {number}\n" for number in range(1000)))
    reader = LogReader(folder, history_bytes=25)
    assert lines(reader) == ["line 998", "line 999"]
    append(folder / "b.jsonl", "".join(f"line {number}\n" for number in range(1000)))
    assert len(lines(reader)) == 1000
    reader.close()


def test_one_file(tmp_path):
    append(tmp_path / "saved.log", "1\n2\n")
    append(tmp_path / "other.jsonl", "3\n")
    reader = LogReader(tmp_path / "saved.log", history_bytes=None)
    assert lines(reader) == ["1", "2"]
    reader.close()


def test_a_folder_that_comes_later(folder):
    reader = LogReader(folder)
    assert lines(reader) == []
    folder.mkdir()
    append(folder / "a.jsonl", "1\n")
    assert lines(reader) == ["1"]
    reader.close()


def test_a_line_without_an_end_takes_no_room_without_end(folder, reader):
    append(folder / "a.jsonl", "x" * (3 * LONGEST_LINE))
    assert lines(reader) == []
    append(folder / "a.jsonl", "\n1\n")
    assert lines(reader)[-1] == "1"
    assert sum(len(file._begun) for file in reader._files.values()) == 0
