"""Token ids to bytes, against the tokenizers library's own decoding."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.detokenizer.vocabulary import load_vocabulary
from shared.config import ConfigError
from tests.support import small_tokenizers
from tests.support.small_tokenizers import byte_fallback, byte_level, unknown_decoder, write_folder


@pytest.fixture(scope="module", params=small_tokenizers.ALL)
def case(request, tmp_path_factory):
    tokenizer = small_tokenizers.ALL[request.param]()
    return tokenizer, load_vocabulary(write_folder(tmp_path_factory.mktemp(request.param), tokenizer))


def test_every_token_alone_behind_a_neutral_one_decodes_as_the_library_decodes_it(case):
    tokenizer, vocabulary = case
    neutral = tokenizer.token_to_id("a")
    for token_id in range(tokenizer.get_vocab_size()):
        theirs = tokenizer.decode([neutral, token_id], skip_special_tokens=False)
        assert b"a" + vocabulary.bytes_of(token_id) == theirs.encode() or "�" in theirs


def test_bytes_below_a_character_are_kept(tmp_path):
    tokenizer = byte_level()
    vocabulary = load_vocabulary(write_folder(tmp_path, tokenizer))
    ids = tokenizer.encode("😀", add_special_tokens=False).ids
    assert b"".join(map(vocabulary.bytes_of, ids)) == "😀".encode()
    assert len(ids) == 4


def test_byte_tokens_are_bytes(tmp_path):
    tokenizer = byte_fallback()
    vocabulary = load_vocabulary(write_folder(tmp_path, tokenizer))
    for byte in range(256):
        assert vocabulary.bytes_of(tokenizer.token_to_id(f"<0x{byte:02X}>")) == bytes([byte])


@pytest.mark.parametrize("token_id", [10**6, 329])
def test_an_id_beyond_the_vocabulary_has_no_bytes(tmp_path, token_id):
    assert load_vocabulary(write_folder(tmp_path, byte_level())).bytes_of(token_id) == b""


def test_special_and_added_tokens_are_told_apart(tmp_path):
    tokenizer = byte_level()
    vocabulary = load_vocabulary(write_folder(tmp_path, tokenizer))
    assert vocabulary.special_ids == {0, 1, 2}
    assert vocabulary.added_ids == {0, 1, 2, tokenizer.token_to_id("<tool>"), tokenizer.token_to_id("with a space")}
    assert vocabulary.bytes_of(tokenizer.token_to_id("with a space")) == b"with a space"


@given(texts=st.lists(st.text(), unique=True))
def test_an_added_token_is_shown_as_the_library_shows_it(tmp_path_factory, texts):
    tokenizer = byte_level()
    tokenizer.add_tokens([text for text in texts if text])
    vocabulary = load_vocabulary(write_folder(tmp_path_factory.mktemp("added"), tokenizer))
    for token_id in range(tokenizer.get_vocab_size()):
        theirs = tokenizer.decode([token_id], skip_special_tokens=False)
        assert vocabulary.bytes_of(token_id).decode("utf-8", "replace") == theirs


def test_a_decoder_that_is_not_known_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="Replace"):
        load_vocabulary(write_folder(tmp_path, unknown_decoder()))


def test_a_tokenizer_without_a_decoder_is_refused(tmp_path):
    path = write_folder(tmp_path, byte_level()) / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"decoder": None}))
    with pytest.raises(ConfigError, match="no decoder"):
        load_vocabulary(tmp_path)


def test_a_missing_file_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        load_vocabulary(tmp_path)


def test_the_older_spelling_of_metaspace_means_the_same(tmp_path):
    path = write_folder(tmp_path, small_tokenizers.metaspace()) / "tokenizer.json"
    content = json.loads(path.read_text())
    assert load_vocabulary(tmp_path).bare_first_token
    for older, is_bare in [({"add_prefix_space": False}, False), ({"add_prefix_space": True}, True)]:
        content["decoder"] = {"type": "Metaspace", "replacement": "▁"} | older
        path.write_text(json.dumps(content))
        assert load_vocabulary(tmp_path).bare_first_token is is_bare
