"""Streamed text equals the library's own decoding of the whole, for any tokens, any division, any stop strings."""

import functools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.detokenizer.incremental import TextStream
from services.detokenizer.vocabulary import Vocabulary, load_vocabulary
from shared import wire
from tests.services.detokenizer.test_stop_strings import expected
from tests.support import small_tokenizers


@functools.cache
def case(name):
    tokenizer = small_tokenizers.ALL[name]()
    with tempfile.TemporaryDirectory() as folder:
        return tokenizer, load_vocabulary(small_tokenizers.write_folder(Path(folder), tokenizer))


def stream(name, **options):
    return TextStream(case(name)[1], wire.TextOptions(**options))


def divided(draw, items):
    """The items in consecutive runs, some of them empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(items)), max_size=5)))
    return [items[start:end] for start, end in zip([0, *cuts], [*cuts, len(items)], strict=True)]


def run(text_stream, runs):
    """Returns the texts let go, and how many tokens were taken in all."""
    texts, taken = [], 0
    for run_ids in runs:
        text, count = text_stream.push(run_ids)
        texts.append(text)
        taken += count
        if text_stream.matched_stop is not None:
            return texts, taken
    return [*texts, text_stream.finish()], taken


def token_ids(name):
    return st.lists(st.integers(0, case(name)[0].get_vocab_size() + 3), max_size=30)


def bytes_as_tokens(tokenizer, content):
    """Each byte a token of its own."""
    if tokenizer.token_to_id("<0x00>") is not None:
        return [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in content]
    alphabet = {byte: token for token, byte in _byte_level().items()}
    return [tokenizer.token_to_id(alphabet[byte]) for byte in content]


@functools.cache
def _byte_level():
    vocabulary = case("byte_level")[1]
    tokenizer = case("byte_level")[0]
    return {
        tokenizer.id_to_token(i): vocabulary.bytes_of(i)[0]
        for i in range(3, tokenizer.get_vocab_size())
        if len(vocabulary.bytes_of(i)) == 1
    }


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("name", ["byte_level", "metaspace"])
@given(data=st.data())
def test_any_tokens_decode_as_the_library_decodes_them(name, skip, data):
    ids = data.draw(token_ids(name))
    texts, _ = run(stream(name, skip_special_tokens=skip), divided(data.draw, ids))
    assert "".join(texts) == case(name)[0].decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("name", ["byte_fallback", "metaspace_without_prefix"])
@given(data=st.data())
def test_so_do_sentencepiece_tokens_unless_bytes_are_invalid(name, data):
    tokenizer = case(name)[0]
    ids = data.draw(token_ids(name))
    texts, _ = run(stream(name), divided(data.draw, ids))
    theirs = tokenizer.decode(ids)
    if "�" in theirs:  # the library replaces the whole run of bytes, we only what is invalid of it
        ours = "".join(texts)
        assert "�" in ours
        assert set(ours) >= set(theirs)
    else:
        assert "".join(texts) == theirs


@pytest.mark.parametrize("name", ["byte_level", "byte_fallback"])
@given(data=st.data(), text=st.text())
def test_valid_text_survives_any_division_of_its_bytes(name, data, text):
    tokenizer = case(name)[0]
    ids = bytes_as_tokens(tokenizer, text.encode())
    texts, _ = run(stream(name), divided(data.draw, ids))
    shown = "".join(texts)
    assert shown == (text if name == "byte_level" else text.removeprefix(" "))
    assert "�" not in text or "�" in shown
    assert not any("�" in piece for piece in texts if "�" not in text)


@given(data=st.data(), content=st.binary(max_size=40))
def test_any_bytes_are_shown_as_they_would_be_decoded_whole(data, content):
    ids = bytes_as_tokens(case("byte_level")[0], content)
    texts, _ = run(stream("byte_level"), divided(data.draw, ids))
    assert "".join(texts) == content.decode("utf-8", "replace")


@given(text=st.text())
def test_a_character_is_let_go_with_its_last_byte(text):
    text_stream = stream("byte_level")
    for char in text:
        *before, last = bytes_as_tokens(case("byte_level")[0], char.encode())
        assert text_stream.push(before) == ("", len(before))
        assert text_stream.push([last]) == (char, 1)


stop_lists = st.lists(st.text(st.sampled_from("ateh �\n好"), min_size=1, max_size=3), max_size=3)


@pytest.mark.parametrize("include", [True, False])
@given(data=st.data(), stops=stop_lists)
def test_stop_strings_end_the_text_wherever_tokens_begin(include, data, stops):
    tokenizer = case("byte_level")[0]
    ids = data.draw(token_ids("byte_level"))
    whole = tokenizer.decode(ids)
    if whole:  # some that occur
        start = data.draw(st.integers(0, len(whole) - 1))
        stops = [*stops, whole[start : start + data.draw(st.integers(1, 4))]]
    text_stream = stream("byte_level", stop=tuple(stops), include_stop=include)
    texts, taken = run(text_stream, divided(data.draw, ids))
    assert ("".join(texts), text_stream.matched_stop) == expected(whole, stops, include=include)
    assert text_stream.chars == len("".join(texts))
    if text_stream.matched_stop is not None:
        assert taken == tokens_through(ids, expected(whole, stops, include=True)[0])
    else:
        assert taken == len(ids)


def tokens_through(ids, text):
    """The fewest tokens that let the text go when nothing is held for a stop string."""
    text_stream = stream("byte_level")
    for count, token_id in enumerate(ids, start=1):
        text_stream.push([token_id])
        if text_stream.chars >= len(text):
            return count
    return len(ids)


@given(data=st.data(), stops=stop_lists)
def test_going_on_from_any_token_is_as_if_nothing_had_been_interrupted(data, stops):
    ids = data.draw(token_ids("byte_level"))
    cut = data.draw(st.integers(0, len(ids)))
    whole, resumed = stream("byte_level", stop=tuple(stops)), stream("byte_level", stop=tuple(stops))
    whole_texts, whole_taken = run(whole, [[i] for i in ids])
    before, taken = resumed.push(ids[:cut])
    if resumed.matched_stop is None:
        after, more = run(resumed, [ids[cut:]])
        before, taken = before + "".join(after), taken + more
    assert (before, taken, resumed.matched_stop) == ("".join(whole_texts), whole_taken, whole.matched_stop)


@pytest.mark.parametrize(
    ("options", "shown"),
    [({}, "a"), ({"skip_special_tokens": False}, "a<|im_end|>"), ({"stop": ("a",)}, ""), ({"stop": ("ab",)}, "a")],
)
def test_special_tokens_are_shown_only_when_wanted(options, shown):
    ids = [case("byte_level")[0].token_to_id("a"), 2]
    assert "".join(run(stream("byte_level", **options), [ids])[0]) == shown


def test_a_skipped_special_token_does_not_cut_a_character():
    first, *rest = bytes_as_tokens(case("byte_level")[0], "好".encode())
    assert "".join(run(stream("byte_level"), [[first, 0, *rest]])[0]) == "好"


def test_tokens_without_text_take_no_more_work_each_than_the_first():
    """The classic fault decodes all that is pending again at each token."""
    looked_at = []

    class Counting(dict):
        def __getitem__(self, token_id):
            looked_at.append(token_id)
            return b"\xf0"  # the beginning of a character, again and again

        def __len__(self):
            return 10

    text_stream = TextStream(Vocabulary(Counting()), wire.TextOptions())
    for _ in range(500):
        text_stream.push([1])
    assert len(looked_at) == 500
    assert text_stream.chars == 499


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [(["▁the", "▁cat"], "the cat"), (["<s>", "▁the"], "the"), (["▁", "cat"], "cat"), (["▁", "▁", "cat"], " cat")],
)
def test_the_space_in_front_of_a_sentencepiece_text_is_taken_off(pieces, shown):
    for name in ("byte_fallback", "metaspace"):
        tokenizer = case(name)[0]
        ids = [tokenizer.token_to_id(piece) for piece in pieces]
        assert "".join(run(stream(name), [[i] for i in ids])[0]) == tokenizer.decode(ids) == shown


def test_an_added_token_keeps_its_spaces_at_the_front():
    tokenizer = case("metaspace")[0]
    assert "".join(run(stream("metaspace"), [[tokenizer.token_to_id("with a space")]])[0]) == "with a space"
