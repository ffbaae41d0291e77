import pytest

from scripts.bench.cache.author import Desk


def letters(text):
    return [ord(letter) for letter in text]


@pytest.mark.parametrize("tokens", [0, 1, 57, 400])
def test_a_text_has_exactly_so_many_tokens(tokens):
    assert len(Desk(letters, 1).author("x").text(tokens)) == tokens


def test_an_author_writes_the_same_under_the_same_name_and_seed_only():
    def text(seed, *name):
        return Desk(letters, seed).author(*name).text(300)

    assert text(1, "user", 1) == text(1, "user", 1)
    assert len({tuple(text(*other)) for other in [(1, "user", 1), (1, "user", 2), (2, "user", 1), (1, "set", 1)]}) == 4


def test_a_question_ends_where_the_answer_begins():
    asked = Desk(letters, 1).author("x").ask(letters("Why?"))
    assert "".join(map(chr, asked)) == "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
