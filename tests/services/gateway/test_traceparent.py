import pytest

from services.gateway.traceparent import read_trace_id

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "header",
    [
        f"00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}-03",
        f" 00-{TRACE}-{SPAN}-01\t",
        f"01-{TRACE}-{SPAN}-01",  # of a later version what is known is read
        f"cc-{TRACE}-{SPAN}-01-what-comes-then",
    ],
)
def test_a_trace_is_read(header):
    assert read_trace_id([header]) == TRACE


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["-"],
        [f"ff-{TRACE}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-01-more"],
        [f"cc-{TRACE}-{SPAN}-01.more"],
        [f"00-{'0' * 32}-{SPAN}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE.upper()}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-0"],
        [f"00-{TRACE}-{SPAN}"],
        [f"00-{TRACE[:-1]}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-01\n"],
        [f"00-{TRACE[:-1]}٠-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"],
    ],
)
def test_anything_else_is_ignored(headers):
    assert read_trace_id(headers) == ""
