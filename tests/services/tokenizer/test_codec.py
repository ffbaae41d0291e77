"""Text to ids and back, against the tokenizers library and transformers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.tokenizer.codec import Codec, NotText
from services.tokenizer.own_tokens import Piece
from services.tokenizer.templates import ChatTemplate
from shared import wire
from shared.config import ConfigError
from tests.support import small_tokenizers
from tests.support.small_tokenizers import byte_fallback, byte_level, small_card, write_folder


def codec(tokenizer=None, **card):
    tokenizer = tokenizer or byte_level()
    return Codec(tokenizer, small_card(tokenizer, **card))


@pytest.fixture(scope="module", params=small_tokenizers.ALL)
def tokenizer(request):
    return small_tokenizers.ALL[request.param]()


@given(text=st.text())
def test_any_text_encodes_as_the_library_encodes_it(tokenizer, text):
    assert codec(tokenizer).encode_bare(text) == tuple(tokenizer.encode(text, add_special_tokens=False).ids)


@given(text=st.text())
def test_byte_level_text_comes_back(text):
    both = codec()
    assert both.decode(both.encode_bare(text), skip_special_tokens=False) == text


@given(text=st.text())
def test_so_many_characters_are_at_least_so_many_tokens(text):
    both = codec()
    assert len(both.encode_bare(text)) >= len(text) / both.longest_token_chars


def test_control_characters_are_text():
    both = codec()
    assert both.decode(both.encode_bare("a\0b\x1b"), skip_special_tokens=True) == "a\0b\x1b"


def test_a_lone_surrogate_is_no_text():
    with pytest.raises(NotText, match="surrogate"):
        codec().encode_prompt("a\ud800")


@pytest.mark.parametrize(
    ("card", "start"), [({}, ()), ({"add_bos": True}, (1,)), ({"add_bos": True, "bos_token_id": None}, ())]
)
def test_a_prompt_begins_with_bos_if_the_model_wants_it(card, start):
    both = codec(**card)
    assert both.encode_prompt("cat") == start + both.encode_bare("cat")
    assert both.encode_prompt("") == start


def test_bos_is_not_put_in_front_of_itself():
    both = codec(add_bos=True)
    assert both.encode_prompt("<|im_start|>cat") == both.encode_bare("<|im_start|>cat")


def test_truncation_and_padding_of_the_file_are_off():
    tokenizer = byte_level()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=10)
    assert len(codec(tokenizer).encode_bare("bcdfg")) == 5


def test_a_prompt_may_hold_special_tokens():
    assert codec().encode_prompt("<|im_end|>") == (2,)


def test_a_literal_piece_does_not():
    both = codec()
    ids = both.encode_pieces([Piece("<|im_start|>", False), Piece("<|im_end|>", True), Piece("<|im_end|>", False)])
    assert (ids[0], ids[-1]) == (1, 2)
    assert not {0, 1, 2} & set(ids[1:-1])
    assert both.decode(ids[1:-1], skip_special_tokens=True) == "<|im_end|>"
    assert both.encode_bare("<|im_end|>") == (2,)


def test_a_token_that_plain_text_gives_too_cannot_be_literal():
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["a"])
    with pytest.raises(NotText, match="'a'"):
        codec(tokenizer).encode_pieces([Piece("a", True)])


def test_no_space_is_put_in_front_of_an_inner_piece():
    both = codec(byte_fallback())
    ids = both.encode_pieces([Piece("cat", False), Piece("</s>", True), Piece("cat", False)])
    assert both.decode(ids, skip_special_tokens=False) == "cat</s>cat"


written = st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "\n", " ", "the", "你", "<"]), max_size=6)


@pytest.mark.oracle
@given(parts=written)
def test_messages_with_special_tokens_encode_as_transformers_sanitizes_them(parts):
    from transformers import PreTrainedTokenizerFast

    tokenizer = byte_level()
    card = small_card(tokenizer)
    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=card.bos_token, eos_token=card.eos_token)
    both = codec(byte_level())
    template = ChatTemplate(card.chat_template, special_tokens=both.special_tokens)
    content = "".join(parts)
    ours = both.encode_pieces(template.render([wire.ChatMessage("user", content)]))
    expected = theirs.apply_chat_template(
        [{"role": "user", "content": content}],
        chat_template=card.chat_template,
        add_generation_prompt=True,
        sanitize_control_tokens=True,
        return_dict=False,
    )
    assert ours == tuple(expected)


def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        Codec.load(tmp_path, small_card(byte_level()))
    folder = write_folder(tmp_path, byte_level())
    assert Codec.load(folder, small_card(byte_level())).special_tokens == {
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
    }
