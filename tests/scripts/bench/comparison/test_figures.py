from scripts.bench.comparison.figures import METRICS, Spread, by_round, phases, ratios, same_outputs


def run(number, side, tok_s, ttft=100.0, *, failed=0, phase="cold", texts=()):
    summary = {
        "text_shas": list(texts),
        "failed": failed,
        "new_tok_s": tok_s,
        "ttft_ms": {"p50": ttft, "p95": ttft},
        "itl_ms": {"p50": None},
    }
    return {"round": number, "side": side, "workload": "prefix", "report": {"phases": {phase: summary}}}


RUNS = [run(0, "a", 30.0), run(0, "b", 10.0), run(1, "b", 20.0, 300.0), run(1, "a", 10.0), run(2, "a", 5.0, failed=1)]


def test_phases_in_the_order_in_which_they_were_played():
    assert phases([*RUNS, run(2, "a", 1.0, phase="warm")]) == [("prefix", "cold"), ("prefix", "warm")]


def test_rounds_that_failed_do_not_count():
    assert by_round(RUNS, "a", "prefix", "cold", METRICS["tok_s"]) == {0: 30.0, 1: 10.0}
    assert by_round(RUNS, "a", "prefix", "warm", METRICS["tok_s"]) == {}
    assert by_round(RUNS, "a", "prefix", "cold", METRICS["itl_p50"]) == {}


def test_a_ratio_above_one_is_better_whichever_way_the_metric_points():
    ours, theirs = ({0: 30.0, 1: 10.0, 2: 7.0}, {1: 20.0, 0: 10.0})
    assert ratios(ours, theirs, METRICS["tok_s"]) == [3.0, 0.5]
    assert ratios(ours, theirs, METRICS["ttft_p50"]) == [10 / 30, 2.0]


def test_a_spread():
    assert Spread.of([3.0, 1.0, 8.0]) == Spread(3.0, 1.0, 8.0, 3)
    assert Spread.of([]) is None


def test_outputs_are_compared_within_rounds():
    runs = [run(0, "a", 1.0, texts="xy"), run(1, "a", 1.0, texts="uv"), run(0, "b", 1.0, texts="xz")]
    assert same_outputs(runs, "a", "b", "prefix", "cold") == (1, 2)
    assert same_outputs(runs, "a", "c", "prefix", "cold") == (0, 0)
