"""The table in docs/bad_input.md of what later stages say is what they say."""

from pathlib import Path

import httpx
import pytest

from tests.faults.bad_inputs import DEPLOYED, rows

TABLE = (Path(__file__).parents[2] / "docs" / "bad_input.md").read_text()


@pytest.mark.parametrize("bad", DEPLOYED, ids=lambda bad: f"{bad.what} {bad.routes[0]}")
def test_the_table_says_what_the_server_says(server, bad):
    found = {}
    for route in bad.routes:
        reply = httpx.post(f"{server.url}{route}", content=bad.body(route), timeout=60)
        assert reply.status_code == 200 or 400 <= reply.status_code < 500
        found[route] = (reply.status_code, reply.json())
    for line in rows(bad, found):
        assert f"{line}\n" in TABLE
    assert server.generate("Hello", max_new_tokens=1)["meta_info"]["completion_tokens"] == 1
