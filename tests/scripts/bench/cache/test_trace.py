from scripts.bench.cache import trace
from scripts.bench.cache.trace import Record, by_submission


def record(request_id, submitted_s):
    return Record("chat", request_id, "one", submitted_s, (1, 2, 3), (4, 5), 2, 0.1, 0.2)


def test_what_is_written_is_read_and_more_can_be_added(tmp_path):
    trace.append(tmp_path / "trace", [record("a", 0.0)])
    trace.append(tmp_path / "trace", [record("b", 1.0), record("c", 2.0)])
    assert trace.read(tmp_path / "trace") == [record("a", 0.0), record("b", 1.0), record("c", 2.0)]


def test_the_order_of_submission_is_not_that_of_the_replies():
    assert [r.request_id for r in by_submission([record("late", 2.0), record("early", 1.0)])] == ["early", "late"]


def test_a_request_leaves_its_prompt_and_its_output_behind():
    assert record("a", 0.0).token_ids == (1, 2, 3, 4, 5)
