"""The table of docs/bad_input.md is what the gateway says, and no 20 bad inputs do any harm."""

from pathlib import Path

from tests.faults.bad_inputs import IN_PROCESS, MAX_BODY_BYTES, rows
from tests.support.served_gateway import serving
from tests.support.tiny_card import TINY_CARD

TABLE = Path(__file__).parents[2] / "docs" / "bad_input.md"


async def test_the_table_says_what_the_gateway_says(tmp_path):
    async with serving(tmp_path, TINY_CARD, max_body_bytes=MAX_BODY_BYTES) as served:
        lines = [line for bad in IN_PROCESS for line in rows(bad, await answers(served, bad))]
        assert (await served.post("/generate", {"text": "x"}))[0] == 200
    assert "\n".join(lines) in TABLE.read_text(), "the table should be:\n" + "\n".join(lines)


async def answers(served, bad):
    found = {}
    for route in bad.routes:
        status, body, headers = await served.post(route, data=bad.body(route))
        assert headers["x-request-id"]
        assert status == 200 or 400 <= status < 500
        found[route] = (status, body)
    return found
