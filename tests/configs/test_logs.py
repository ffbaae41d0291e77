"""docs/logs.md tells of each line that is logged."""

import re

CALLS = re.compile(r"""\b(?:_?log|get\(\))\.(?:info|warning|error|exception)\(\s*"(\w+)"|\bnote\(\s*"(\w+)\"""")
FIELDS = re.compile(r'"(\w+)": (?!wire)')


def documented(repository):
    return set(re.findall(r"`(\w+)`", (repository / "docs/logs.md").read_text()))


def test_each_event_is_documented(repository):
    sources = [path.read_text() for folder in ("services", "shared") for path in (repository / folder).rglob("*.py")]
    events = {name for source in sources for pair in CALLS.findall(source) for name in pair if name}
    assert {"request", "finished", "step", "process_ready"} <= events
    assert events <= documented(repository)


def test_each_field_of_a_requests_lines_and_of_steps_is_documented(repository):
    paths = ("gateway/record.py", "scheduler/stories.py", "scheduler/step_log.py", "executor/step_log.py")
    fields = {name for path in paths for name in FIELDS.findall((repository / "services" / path).read_text())}
    assert {"tpot_s", "queue_s", "plan_s", "kv_free", "masks_computed"} <= fields
    assert fields <= documented(repository)
