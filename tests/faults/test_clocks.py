"""Clocks that jump or differ: no decision depends on the time of day, and no machine's clock is held against another's.

The time of day cannot be set for a test, so what is shown is that nothing reads it but what is listed here.
"""

import ast

TELLS_THE_TIME = {
    "time.time",
    "time.time_ns",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "time.clock_gettime",
}
FOR_PEOPLE = {
    "services/gateway/app.py": "when the model was `created`, in /v1/models",
    "services/gateway/serving.py": "when a reply was `created`",
    "services/tokenizer/jinja_sandbox.py": "a template's strftime_now",
    "shared/status_files.py": "the age of a status file, which the same machine's clock has dated",
}


def readers(repository):
    for folder in ("services", "shared"):
        for path in sorted((repository / folder).rglob("*.py")):
            calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))
            if any(ast.unparse(call) in TELLS_THE_TIME for call in calls):
                yield str(path.relative_to(repository))


def test_the_time_of_day_is_read_for_people_alone(repository):
    assert set(readers(repository)) == set(FOR_PEOPLE)
