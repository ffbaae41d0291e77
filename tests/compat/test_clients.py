"""Every client, in an environment of its own, runs its cases against a real server; each is a program that asserts."""

import pytest

from tests.compat.conftest import CLIENTS

CASES = sorted(str(case.relative_to(CLIENTS)) for case in CLIENTS.glob("*/case_*"))


@pytest.mark.parametrize("case", CASES)
def test_a_client(case, server, run_case):
    run_case(case, server.url)
