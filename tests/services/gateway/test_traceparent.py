import pytest

from services.gateway.traceparent import Parent, read_parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("header", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-02", False),  # of flags that there will be, none is this one
        (f"00-{TRACE}-{SPAN}-03", True),
        (f" 00-{TRACE}-{SPAN}-01\t", True),
        (f"01-{TRACE}-{SPAN}-01", True),  # of a later version what is known is read
        (f"cc-{TRACE}-{SPAN}-01-what-comes-then", True),
    ],
)
def test_a_trace_is_read(header, is_sampled):
    assert read_parent([header]) == Parent(TRACE, SPAN, is_sampled)


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
    assert read_parent(headers) is None
