"""The bundled model's own tokens, streamed one by one."""

import pytest
from tokenizers import Tokenizer

from services.detokenizer.incremental import TextStream
from services.detokenizer.vocabulary import load_vocabulary
from shared import wire
from tests.support.bundled import bundled_folder
from tests.support.prompts import PROMPTS


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(bundled_folder() / "tokenizer.json"))


@pytest.fixture(scope="module")
def vocabulary():
    return load_vocabulary(bundled_folder())


def test_every_token_has_the_bytes_that_the_library_gives_it(tokenizer, vocabulary):
    for token_id in range(tokenizer.get_vocab_size()):
        theirs = tokenizer.decode([token_id], skip_special_tokens=False)
        assert vocabulary.bytes_of(token_id).decode("utf-8", "replace") == theirs


def test_prompts_stream_back_as_they_were(tokenizer, vocabulary):
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        stream = TextStream(vocabulary, wire.TextOptions())
        pieces = [stream.push([token_id])[0] for token_id in ids]
        assert "".join(pieces) + stream.finish() == prompt
        assert not any("�" in piece for piece in pieces)
