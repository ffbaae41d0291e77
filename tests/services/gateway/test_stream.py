import asyncio

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.stream import MOST_PIECES, Stream

ENDING = Ending(Usage(), 1, None, "stop")


def delta(text, tokens):
    return Delta(text, tuple(range(tokens)), Usage(1, 0, tokens))


async def test_pieces_come_as_they_are_delivered():
    stream = Stream(1, lambda index: None)
    reading = asyncio.create_task(collect(stream))
    for text in ("a", "b"):
        stream.deliver(0, delta(text, 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    stream.finish(0, ENDING)
    assert [piece.text for _, piece in (await reading)[:-1]] == ["a", "b"]
    assert stream.endings == {0: ENDING}


async def test_a_slow_reader_gets_what_it_missed_in_one_piece():
    stream = Stream(1, lambda index: None)
    stream.deliver(0, delta("a", 1))
    stream.deliver(0, delta("b", 2))
    stream.finish(0, ENDING)
    assert await collect(stream) == [(0, Delta("ab", (0, 0, 1), Usage(1, 0, 2))), (0, ENDING)]


async def test_what_nobody_reads_is_kept_in_few_pieces():
    stream = Stream(1, lambda index: None)
    sizes = []
    for _ in range(20 * MOST_PIECES):
        stream.deliver(0, delta("ab", 1))
        sizes.append(len(stream._news[0]))
    stream.finish(0, ENDING)
    assert max(sizes) < MOST_PIECES
    ((_, piece), _) = await collect(stream)
    assert (piece.text, len(piece.token_ids)) == ("ab" * 20 * MOST_PIECES, 20 * MOST_PIECES)


async def test_generations_take_turns_and_each_ends_after_its_last_piece():
    stream = Stream(2, lambda index: None)
    stream.deliver(0, delta("a", 1))
    stream.deliver(1, delta("b", 1))
    stream.finish(0, ENDING)
    stream.deliver(1, delta("c", 1))
    stream.finish(1, ENDING)
    found = [(index, getattr(news, "text", None)) for index, news in await collect(stream)]
    assert found == [(0, "a"), (1, "bc"), (0, None), (1, None)]


async def test_closing_early_tells_and_closing_late_does_not():
    told = []
    stream = Stream(2, told.append)
    stream.finish(0, ENDING)
    stream.close()
    assert told == [1]
    stream.finish(1, ENDING)
    stream.close()
    assert told == [1]


async def collect(stream):
    return [piece async for piece in stream]
