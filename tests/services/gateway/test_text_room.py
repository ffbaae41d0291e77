"""What calls that ask the tokenizers may hold, in all and by tenant."""

from contextlib import ExitStack

import pytest

from services.gateway.errors import ApiError
from services.gateway.text_room import TextRoom


def is_full(room, tenant, size=0):
    try:
        with room.open(tenant, size):
            return False
    except ApiError:
        return True


def test_a_tenant_leaves_room_for_another():
    room = TextRoom(max_calls=16)
    with ExitStack() as calls:
        for _ in range(14):
            calls.enter_context(room.open("alice", 0))
        with pytest.raises(ApiError, match="too many open requests") as refusal, room.open("alice", 0):
            pass
        assert (refusal.value.error.status, refusal.value.error.code) == (429, "overloaded")
        assert not is_full(room, "bob")
    assert not is_full(room, "alice")


def test_without_keys_there_is_one_tenant_which_has_it_all():
    room = TextRoom(max_calls=3, max_bytes=100)
    with room.open("", 40), room.open("", 40), room.open("", 20) as call:
        assert is_full(room, "")
        with pytest.raises(ApiError):
            call.hold(1)


def test_bytes_are_shared_like_calls():
    room = TextRoom(max_calls=100, max_bytes=1600)
    with room.open("alice", 1000) as call:
        call.hold(400)
        assert is_full(room, "alice", 1)
        assert not is_full(room, "bob", 100)
        with pytest.raises(ApiError):
            call.hold(1)
        assert room.held_bytes == 1400
    assert room.held_bytes == 0


def test_what_was_refused_holds_nothing():
    room = TextRoom(max_calls=1, max_bytes=100)
    assert is_full(room, "", 101)
    assert room.held_bytes == 0
    assert not is_full(room, "", 100)
