import asyncio
import threading
from contextvars import ContextVar

import pytest

from sapwood.aside import aside

HERE: ContextVar[str] = ContextVar("here")


async def test_items_come_in_order_and_then_the_error():
    def items():
        yield 1
        yield 2
        raise ValueError("late")

    found = aside(items())
    assert [await anext(found), await anext(found)] == [1, 2]
    with pytest.raises(ValueError, match="late"):
        await anext(found)


async def test_the_thread_knows_where_it_was_started():
    HERE.set("there")
    assert [item async for item in aside(HERE.get() for _ in range(1))] == ["there"]


def test_a_loop_that_closes_waits_for_nothing():
    let, ended = threading.Event(), threading.Event()

    def items():
        try:
            yield 1
            let.wait()
            yield 2
        finally:
            ended.set()

    async def first():
        return await anext(aside(items()))

    assert asyncio.run(first()) == 1
    let.set()
    assert ended.wait(10)
