import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.commands import terminal
from sapwood.commands.terminal import Paint, bar, count, paint_for, percent, seconds, table


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "has_colours"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_terminals(stream, environment, has_colours):
    assert paint_for(stream, environment).has_colours is has_colours


def test_paint():
    assert Paint(True)("hot", "bold", "red") == "\x1b[1;31mhot\x1b[0m"
    assert Paint(False)("hot", "bold", "red") == "hot"


def test_a_table_is_aligned():
    assert table([("a", "1"), ("bcd", "10")], heading=("", "n")) == ["      n", "a     1", "bcd  10"]


@given(st.floats(-1, 2), st.integers(1, 60))
def test_a_bar_is_as_wide_as_it_is_told(share, width):
    drawn = bar(share, width)
    assert len(drawn) == width
    full = drawn.count("█")
    assert full <= min(max(share, 0), 1) * width + 1 / 16
    assert full >= min(max(share, 0), 1) * width - 1


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0012345, "1.23 ms"), (0.25, "250 ms"), (0.99999, "1 s"), (12.34, "12.3 s")]
)
def test_seconds(value, text):
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (9999, "9,999"), (12345, "12.3 k"), (999_600, "1 M"), (2e9, "2 G")]
)
def test_count(value, text):
    assert count(value) == text


def test_percent():
    assert [percent(None), percent(0.5), percent(1.0)] == ["–", "50.0 %", "100.0 %"]


def test_the_width_has_a_limit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    assert terminal.width(80) == 80
