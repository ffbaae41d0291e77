import asyncio

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.stream import Stream

ENDING = Ending(Usage(), 1, None, "stop")


def delta(text, tokens):
    return Delta(text, tuple(range(tokens)), Usage(1, 0, tokens))


async def test_pieces_come_as_they_are_delivered():
    stream = Stream(lambda: None)
    reading = asyncio.create_task(collect(stream))
    for text in ("a", "b"):
        stream.deliver(delta(text, 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    stream.finish(ENDING)
    assert [piece.text for piece in await reading] == ["a", "b"]
    assert stream.ending == ENDING


async def test_a_slow_reader_gets_what_it_missed_in_one_piece():
    stream = Stream(lambda: None)
    stream.deliver(delta("a", 1))
    stream.deliver(delta("b", 2))
    stream.finish(ENDING)
    assert await collect(stream) == [Delta("ab", (0, 0, 1), Usage(1, 0, 2))]


async def test_closing_early_tells_and_closing_late_does_not():
    told = []
    stream = Stream(lambda: told.append(1))
    stream.close()
    stream.finish(ENDING)
    stream.close()
    assert told == [1]


async def collect(stream):
    return [piece async for piece in stream]
