from scripts.bench.cache import trace
from scripts.bench.cache.trace import Record, as_served, by_submission


def record(request_id, submitted_s, ttft_s=0.1):
    return Record("chat", request_id, "one", submitted_s, (1, 2, 3), (4, 5), 2, ttft_s, total_s=9.0)


def test_what_is_written_is_read_and_more_can_be_added(tmp_path):
    trace.append(tmp_path / "trace", [record("a", 0.0)])
    trace.append(tmp_path / "trace", [record("b", 1.0), record("c", 2.0)])
    assert trace.read(tmp_path / "trace") == [record("a", 0.0), record("b", 1.0), record("c", 2.0)]


def test_the_order_of_submission_is_not_that_of_the_replies():
    assert [r.request_id for r in by_submission([record("late", 2.0), record("early", 1.0)])] == ["early", "late"]


def test_who_has_the_first_token_first_was_served_first():
    trace = [record("waited", 1.0, ttft_s=3.0), record("overtook", 2.0, ttft_s=1.0)]
    assert [r.request_id for r in as_served(trace)] == ["overtook", "waited"]


def test_a_request_leaves_its_prompt_and_its_output_behind():
    assert record("a", 0.0).token_ids == (1, 2, 3, 4, 5)
