"""Where an object ends: at its last bracket, whatever its strings hold and however it is cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.tool_calls.arguments import ObjectScanner

SCALARS = st.none() | st.booleans() | st.integers() | st.text('{}[]"\\ax', max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('{}[]"\\ax', max_size=4), inner, max_size=3),
    max_leaves=8,
)


def end_of(pieces):
    """The place of the end over all pieces."""
    scanner, read = ObjectScanner(), 0
    for piece in pieces:
        if (end := scanner.end(piece)) is not None:
            return read + end
        read += len(piece)
    return None


@given(
    st.dictionaries(st.text('{}[]"\\ax', max_size=4), VALUES, max_size=3), st.sampled_from(["", "}", '"}{', " \n}]"])
)
def test_the_end_of_any_object(value, behind):
    text = json.dumps(value)
    assert end_of([text + behind]) == len(text)
    assert end_of(list(text + behind)) == len(text)


@pytest.mark.parametrize("text", ["{", '{"a', '{"a}', '{"a\\"}', '{"a\\\\\\"}', '{"a": {}', "{[}"])
def test_what_goes_on(text):
    assert end_of([text]) is None
    assert end_of(text) is None
