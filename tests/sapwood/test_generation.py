import pytest

from sapwood import BackendError, function, gen
from tests.support.fake_backend import FakeBackend


class Silent(FakeBackend):
    async def stream(self, request):
        for nothing in ():
            yield nothing


def test_a_stream_of_nothing_is_no_answer():
    state = function(lambda s: s.__iadd__("a" + gen("x"))).stream(backend=Silent())
    with pytest.raises(BackendError, match="empty"):
        list(state.text_iter("x"))
