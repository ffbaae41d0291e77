import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.bench.traffic.reply import Reply
from scripts.bench.traffic.report import quantile, summarise


def reply(**fields):
    return Reply(
        **{"sent_s": 0.0, "first_s": 1.0, "ended_s": 5.0, "new_tokens": 9, "chunks": 3, "prompt_tokens": 4} | fields
    )


def test_the_figures():
    replies = [reply(gaps_s=[0.1, 0.3], cached_tokens=3), reply(first_s=3.0), reply(error="late", text="x")]
    summary = summarise(replies, wall_s=6.0, client_cpu_s=0.25)
    assert (summary["requests"], summary["failed"], summary["first_error"]) == (3, 1, "late")
    assert (summary["prompt_tokens"], summary["new_tokens"], summary["cached_tokens"]) == (8, 18, 3)
    assert (summary["new_tok_s"], summary["tokens_per_chunk"]) == (3.0, 3.0)
    assert summary["decode_tok_s_per_request_p50"] == 3.0  # between 8 in 4 s and 8 in 2 s
    assert summary["ttft_ms"] == {"p50": 2000.0, "p95": 2900.0}
    assert summary["itl_ms"] == {"p50": 200.0, "p95": 290.0}


def test_of_failures_alone_there_are_no_figures():
    summary = summarise([reply(error="refused")], wall_s=1.0, client_cpu_s=0.0)
    assert (summary["new_tok_s"], summary["cached_tokens"]) == (0.0, None)
    assert summary["ttft_ms"] == {"p50": None, "p95": None}


def test_equal_outputs_have_equal_digests():
    one, same, other = ([reply(text=text) for text in pair] for pair in (("a", "b"), ("a", "b"), ("ab", "")))
    summaries = [summarise(each, wall_s=1.0, client_cpu_s=0.0) for each in (one, same, other)]
    digests = [summary["text_sha"] for summary in summaries]
    assert digests[0] == digests[1] != digests[2]
    assert summaries[0]["text_shas"] == summaries[1]["text_shas"]
    assert len({*summaries[0]["text_shas"], *summaries[2]["text_shas"]}) == 4


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_between_the_ranks_around_it(values, share):
    found = quantile(values, share)
    assert min(values) <= found <= max(values)
    below = sum(value <= found + 1e-6 for value in values)
    assert below >= share * (len(values) - 1)


def test_quantiles_between_two_values():
    assert quantile([4.0, 2.0], 0.75) == pytest.approx(3.5)
    assert quantile([], 0.5) is None
