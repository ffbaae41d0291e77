"""What goes through the pipe to the process that compiles, and what is left of it if that ends."""

import io

from hypothesis import given
from hypothesis import strategies as st

from services.executor.constraint.job import (
    Answer,
    Broken,
    Done,
    Job,
    Ready,
    TooComplex,
    Wrong,
    decode_answer,
    decode_job,
    framed,
    read_frame,
)
from shared import wire
from shared.config import ConstraintsConfig

paths = st.lists(st.text() | st.integers(0, 2**40)).map(tuple)
answers: st.SearchStrategy[Ready | Answer] = st.one_of(
    st.builds(Ready, st.integers(0, 2**40)),
    st.builds(Done, st.text(), st.integers(0, 2**40)),
    st.builds(Wrong, st.text(), paths),
    st.builds(TooComplex, st.text()),
    st.builds(Broken, st.text()),
)


@given(st.lists(answers))
def test_answers_come_out_as_they_went_in(sent: list[Ready | Answer]) -> None:
    stream = io.BytesIO(b"".join(map(framed, sent)))
    found = []
    while (frame := read_frame(stream)) is not None:
        found.append(decode_answer(frame))
    assert found == sent


@given(answers, st.data())
def test_half_a_message_is_none(sent: Ready | Answer, data: st.DataObject) -> None:
    whole = framed(sent)
    assert read_frame(io.BytesIO(whole[: data.draw(st.integers(0, len(whole) - 1))])) is None


def test_a_job_takes_its_limits_along() -> None:
    job = Job(wire.Constraint("regex", "a\0\n😀", strict=False), ConstraintsConfig(max_depth=3))
    frame = read_frame(io.BytesIO(framed(job)))
    assert frame is not None
    assert decode_job(frame) == job
