import pytest
from tokenizers import Tokenizer

from services.executor.model.gguf_file import GgufFile
from services.executor.model.gguf_tokenizer import SPLITTINGS, build_tokenizer, write_tokenizer
from shared.config import ConfigError
from tests.support.tiny_gguf import make_tiny_gguf
from tests.support.tiny_model import CHAT_TEMPLATE, make_tiny_model

TEXTS = [
    "",
    "the answer is 42",
    "  two  spaces\n\n1. item",
    "naïve café 東京 🎉",
    "<|im_start|>user\nthe<|im_end|>",
    "\x00",
]


@pytest.fixture
def make(tmp_path):
    folder = make_tiny_model(tmp_path / "folder")

    def make_file(**metadata):
        named = {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}
        return GgufFile(make_tiny_gguf(tmp_path / "model.gguf", folder, metadata=named))

    return make_file


def pieces(tokenizer, text):
    return [piece.replace("Ġ", " ").replace("Ċ", "\n") for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


def test_gives_back_the_folders_tokenizer(tmp_path, make):
    tokenizer = build_tokenizer(make())
    original = Tokenizer.from_file(str(tmp_path / "folder" / "tokenizer.json"))
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        assert ids == original.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert tokenizer.get_vocab_size() == 320


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["Don", "'t", " pay", " $", "1234", ".", "5", "\n", "\n", "1", ".", " HE", "'", "LL", " goHome"]),
        ("smollm", ["Don", "'t", " pay", " $", *"1234", ".", "5", "\n\n", "1", ".", " HE", "'", "LL", " goHome"]),
        ("llama-bpe", ["Don", "'t", " pay", " $", "123", "4", ".", "5", "\n\n", "1", ".", " HE", "'LL", " goHome"]),
        ("qwen2", ["Don", "'t", " pay", " $", *"1234", ".", "5", "\n\n", "1", ".", " HE", "'LL", " goHome"]),
        ("tekken", ["Don", "'t", " pay", " $", *"1234", ".", "5", "\n\n", "1", ".", " HE", "'LL", " go", "Home"]),
    ],
)
def test_each_pre_tokenizer_splits_its_own_way(make, pre, expected):
    found = pieces(build_tokenizer(make(pre=pre)), "Don't pay $1234.5\n\n1. HE'LL goHome")
    assert found == expected


def test_an_unknown_pre_tokenizer_is_refused_by_name(make):
    with pytest.raises(ConfigError, match=r"unknown tokenizer\.ggml\.pre 'novel'; known are default, gpt-2"):
        build_tokenizer(make(pre="novel"))


def test_only_byte_level_bpe_is_read(make):
    with pytest.raises(ConfigError, match=r"tokenizer\.ggml\.model 'llama' is not supported"):
        build_tokenizer(make(model="llama"))


def test_a_file_without_a_pre_tokenizer_has_the_default_one(make):
    assert pieces(build_tokenizer(make(pre=None)), "a 12") == ["a", " 12"]


@pytest.mark.parametrize("pre", SPLITTINGS)
def test_no_text_is_lost(make, pre):
    tokenizer = build_tokenizer(make(pre=pre))
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(("pre", "whole"), [("llama-bpe", True), ("tekken", True), ("gpt-2", False), ("qwen2", False)])
def test_a_token_that_no_merges_lead_to_may_be_taken_whole(make, pre, whole):
    tokens = make().require("tokenizer.ggml.tokens")
    tokens[319] = "zqx"
    ids = build_tokenizer(make(pre=pre, tokens=tokens, merges=["t h"])).encode("zqx").ids
    assert (ids == [319]) is whole


def test_composes_characters_where_the_model_does(make):
    decomposed = "e\N{COMBINING ACUTE ACCENT}"
    qwen, gpt2 = build_tokenizer(make(pre="qwen2")), build_tokenizer(make(pre="gpt-2"))
    assert qwen.encode(decomposed).ids == qwen.encode("é").ids
    assert gpt2.encode(decomposed).ids != gpt2.encode("é").ids


def test_user_defined_tokens_are_whole_and_not_special(make):
    types = [3] * 3 + [1] * 317
    types[300] = 4
    file = make(token_type=types)
    token = file.require("tokenizer.ggml.tokens")[300]
    tokenizer = build_tokenizer(file)
    assert 300 in tokenizer.get_added_tokens_decoder()
    assert not tokenizer.get_added_tokens_decoder()[300].special
    assert tokenizer.encode(f"x{token}x").ids[1] == 300


def test_says_what_the_file_says_of_special_tokens(tmp_path, make):
    special = write_tokenizer(make(), tmp_path)
    assert (special.bos_token_id, special.bos_token, special.add_bos) == (1, "<|im_start|>", False)
    assert special.eos_token == "<|im_end|>"
    assert special.eos_token_ids == (0, 2)  # the declared one, and <|endoftext|>
    assert special.chat_template == CHAT_TEMPLATE
    assert Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("<|im_end|>").ids == [2]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"add_bos_token": True}, True),
        ({"pre": "llama-bpe"}, True),
        ({"pre": "llama-bpe", "add_bos_token": False}, False),
        ({"pre": "llama-bpe", "bos_token_id": None}, False),
    ],
)
def test_whether_a_prompt_begins_with_bos(tmp_path, make, metadata, expected):
    assert write_tokenizer(make(**metadata), tmp_path).add_bos is expected
