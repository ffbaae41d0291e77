from sapwood.commands.metrics_text import Snapshot
from sapwood.commands.screen import Span, screen
from sapwood.commands.terminal import Paint

BEFORE = """
sapwood_decode_tokens_total 1000.0
sapwood_requests_total{outcome="ok",route="/generate"} 4.0
"""
NOW = """
sapwood_running_requests 3.0
sapwood_waiting_requests 2.0
sapwood_decode_tokens_total 1250.0
sapwood_requests_total{outcome="ok",route="/generate"} 8.0
sapwood_requests_total{outcome="rejected",route="/generate"} 1.0
sapwood_kv_capacity_tokens 1000.0
sapwood_kv_pinned_tokens 250.0
sapwood_kv_evictable_tokens 250.0
sapwood_cache_hit_rate 0.75
sapwood_cache_nodes 12.0
sapwood_drafted_tokens_total 10.0
sapwood_accepted_draft_tokens_total 5.0
sapwood_time_to_first_token_seconds_bucket{le="0.1"} 2.0
sapwood_time_to_first_token_seconds_bucket{le="+Inf"} 2.0
"""


def shown(before, now, elapsed_s):
    return screen(Span(Snapshot.of(before), Snapshot.of(now), elapsed_s), "title", Paint(False))


def line(lines, start):
    (found,) = [line.split() for line in lines if line.startswith(start)]
    return found


def test_rates_are_of_the_time_between_two_looks():
    lines = shown(BEFORE, NOW, 2.0)
    assert line(lines, "output") == ["output", "125/s", "1,250"]
    assert "3 running · 2 waiting · 0 compiling · 2.5/s answered" in lines
    assert "in all: ok 8 · rejected 1" in lines
    assert line(lines, "first token") == ["first", "token", "50", "ms", "95", "ms"]
    assert line(lines, "drafts")[-3:] == ["50.0", "%", "5"]


def test_of_one_look_there_are_no_rates():
    assert line(shown("", NOW, 0.0), "output") == ["output", "–", "1,250"]


def test_bars():
    lines = shown("", NOW, 1.0)
    assert line(lines, "KV")[1:3] == ["█" * 15, "│"]
    assert line(lines, "hit rate")[2:5] == ["█" * 22 + "▌", "│", "75.0"]


def test_counters_of_a_server_that_was_started_anew():
    assert line(shown(NOW, BEFORE, 1.0), "output")[1] == "1000/s"


def test_a_server_that_says_nothing():
    assert shown("", "", 1.0)
