import asyncio
import threading

import pytest

from sapwood.backends.protocol import GenerateRequest, Generation
from sapwood.commands.follow import following
from sapwood.errors import ConnectionFailed
from tests.support.fake_backend import FakeBackend

REQUEST = GenerateRequest(prompt="a")


class Endless(FakeBackend):
    """Says one thing, then nothing until it is closed."""

    def __init__(self):
        super().__init__()
        self.ended = threading.Event()

    async def stream(self, request):
        try:
            yield Generation(text="a")
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def test_all_that_comes_is_shown():
    with following(FakeBackend(lambda _: "abc"), REQUEST) as generations:
        assert [generation.text for generation in generations] == ["a", "ab", "abc"]


def test_what_goes_wrong_is_raised_in_its_place():
    class Breaking(FakeBackend):
        async def stream(self, request):
            yield Generation(text="a")
            raise ConnectionFailed("gone")

    with following(Breaking(), REQUEST) as generations:
        assert next(generations).text == "a"
        with pytest.raises(ConnectionFailed):
            next(generations)


@pytest.mark.parametrize("error", [KeyboardInterrupt, None])
def test_the_stream_ends_with_the_block(error):
    backend = Endless()
    try:
        with following(backend, REQUEST) as generations:
            assert next(generations).text == "a"
            if error is not None:
                raise error
    except KeyboardInterrupt:
        pass
    assert backend.ended.wait(10)
