import math

import msgspec
import pytest

from shared import wire
from shared.decoding import Malformed, Reader

DEEP = 5000
HOSTILE = {
    "nothing": b"",
    "never used": b"\xc1",
    "deep arrays": b"\x93\xaaAdminReply\xa1c\x81\xa1a" + b"\x91" * DEEP + b"\x01",
    "deep maps": b"\x93\xaaAdminReply\xa1c" + b"\x81\xa1a" * DEEP + b"\x01",
    "an extension": b"\x93\xaaAdminReply\xa1c\x81\xa1a\xd4\x05x",
    "a huge array": b"\x92\xabTreeChanged\xdd\xff\xff\xff\xff",
    "a huge map": b"\x93\xaaAdminReply\xa1c\xdf\xff\xff\xff\xff",
    "a huge string": b"\x92\xaaAdminReply\xdb\xff\xff\xff\xff",
    "no UTF-8": b"\x92\xaaAdminReply\xa2\xff\xfe",
    "half a surrogate": b"\x92\xaaAdminReply\xa3\xed\xa0\x80",
    "two messages": msgspec.msgpack.encode(wire.AdminReply("c")) * 2,
    "another role's": msgspec.msgpack.encode(wire.Audit(())),
}


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
def test_whatever_comes_is_a_message_or_malformed(payload):
    with pytest.raises(Malformed):
        Reader(wire.HubFromExecutor).read(payload)


def test_what_is_too_long_is_not_even_decoded():
    limit = wire.max_bytes(wire.HubFromDetokenizer)
    assert limit < wire.max_bytes(wire.HubFromGateway) < wire.max_bytes(wire.HubFromExecutor)
    abort = wire.Abort("r" * limit, 1, "gw", "client")
    with pytest.raises(Malformed, match=f"{limit} are the most"):
        Reader(wire.HubFromDetokenizer).read(msgspec.msgpack.encode(abort))
    assert Reader(wire.HubFromGateway).read(msgspec.msgpack.encode(abort)) == abort


def test_the_words_are_fit_for_a_log():
    with pytest.raises(Malformed) as caught:
        Reader(wire.HubFromExecutor).read(msgspec.msgpack.encode(["a\n\x1b[31m\u2028" + "b" * 1000]))
    words = str(caught.value)
    assert "\\n\\x1b[31m\\u2028b" in words
    assert words.isprintable()
    assert len(words) < 500


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_times_are_numbers(seconds):
    with pytest.raises(Malformed):
        Reader(wire.HubFromExecutor).read(msgspec.msgpack.encode(wire.Heartbeat(wire.Progress(step_age_s=seconds))))


@pytest.mark.parametrize("token_id", [-1, 2**31, 2**63])
def test_token_ids_fit_into_32_bits(token_id):
    with pytest.raises(Malformed):
        Reader(wire.HubToGateway).read(msgspec.msgpack.encode(wire.Accepted("r", 1, (token_id,), 1)))


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "ä", "x" * 129])
def test_names_are_fit_for_a_log(name):
    with pytest.raises(Malformed):
        Reader(wire.Hello).read(msgspec.msgpack.encode(wire.Hello("gateway", wire.PROTOCOL, name)))
