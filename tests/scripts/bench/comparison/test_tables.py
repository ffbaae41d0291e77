from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import compare, markdown, ratio_text, spread_text
from tests.scripts.bench.comparison.test_figures import RUNS


def test_markdown():
    assert markdown(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_a_spread_in_words():
    assert spread_text(None) == ratio_text(None) == "–"
    assert spread_text(Spread(2.0, 2.0, 2.0, 1)) == "2.0"
    assert ratio_text(Spread(2.0, 1.5, 2.25, 3)) == "2.00 (1.50 to 2.25) ×"


def test_the_first_side_against_the_others():
    table = compare(RUNS, ["a", "b"])
    assert table.startswith("**prefix, cold**")
    ours, theirs = table.splitlines()[-2:]
    assert ours.startswith("| a | 20.0 (10.0 to 30.0) | 100.0 (100.0 to 100.0) |")
    assert "1.75 (0.50 to 3.00) ×" in theirs
    assert "2.00 (1.00 to 3.00) ×" in theirs  # time to first token
