"""The server against its own OpenAPI document: schemathesis asks whatever that allows, and much that it does not."""

import re
import subprocess

import pytest

from tests.compat.conftest import CLIENTS
from tests.compat.environments import python_of
from tests.support.deployment import deployed

EXAMPLES = 2000
SHORT = "model.context_length=40"  # of a chat without a word 30 are gone
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)


@pytest.fixture
def small_server(tmp_path):
    with deployed(tmp_path / "server", "--set", SHORT) as deployment:
        yield deployment


def test_examples_of_the_document_find_nothing(small_server, tmp_path):
    """One at a time: a flush beside a request would truly have to wait. Events of the dashboard never end."""
    settings = ["--config-file", str(CLIENTS / "schemathesis" / "schemathesis.toml")]
    program = [str(python_of(CLIENTS / "schemathesis")), "-m", "schemathesis.cli", *settings, "run"]
    phases = ["--phases", "coverage,fuzzing", "--max-examples", "20", "--checks", ",".join(CHECKS)]
    options = ["--continue-on-failure", "--request-timeout", "60", "--seed", "1", "--exclude-path", "/dashboard/events"]
    done = subprocess.run(
        [*program, f"{small_server.url}/openapi.json", *phases, *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    generated = re.search(r"([\d,]+) generated, ([\d,]+) passed", done.stdout)
    assert generated is not None, done.stdout
    assert generated[1] == generated[2]
    assert int(generated[1].replace(",", "")) >= EXAMPLES
