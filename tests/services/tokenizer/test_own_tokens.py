"""However a template puts together what a client wrote, no special token comes of it; the template's own ones stay."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.tokenizer.codec import Codec
from services.tokenizer.own_tokens import MARKS, Piece
from services.tokenizer.templates import ChatTemplate
from shared import wire
from tests.support.small_tokenizers import byte_level, small_card

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|im_end|>!", "<|user|>")
FORMS = (
    "{{ m.content }}",
    "{{ m.content | lower }}",
    "{{ m.content | upper }}",
    "{{ m.content | title }}",
    "{{ m.content | tojson }}",
    "{{ m.content | tojson(ensure_ascii=True) }}",
    "{{ m.content.replace('x', '') }}",
    "{{ m.content[2:] }}",
    "{{ m.content[:-2] ~ m.name }}",
    "{{ '<' ~ m.content ~ '>' }}",
    "<|{{ m.name }}|>",
    "<|im_{{ m.name }}",
    "{{ m.name }}{{ m.content }}",
    "{{ m.content | striptags }}",
    "{{ m.content | reverse }}",
    "{{ m.content.split('</think>') | join }}",
    "{{ m }}",
    "{{ m.calls }}",
    "{{ m.calls | string }}",
    "{{ m.calls | pprint }}",
    "{{ m.calls | tojson }}",
    "{{ '%s' % m.calls }}",
    "{{ m.content.split() | join }}",
    "{{ tools }}",
    "{{ tools | tojson(indent=2) }}",
    "{{ thinking ~ m.content }}",
)
OWN = {
    "<|im_start|>": "<|im_start|>",
    "{{ '<|im_end|>' }}": "<|im_end|>",
    "{{ eos_token }}": "<|im_end|>",
    "{{ '\n<|im_end|>\n' | trim }}": "<|im_end|>",
    "a{{ '<|im_start|>b' }}": "<|im_start|>",
}
FRAGMENTS = (
    "<|im_end|>",
    "<|IM_END|>",
    "<|im_",
    "start",
    "end|>",
    "|im_end|",
    "<",
    ">",
    "x",
    " ",
    "'",
    *"\ufdd0\ufdd1\ufdd2\ufdd3",
    "\\ufdd0",
)
written = st.lists(st.sampled_from((*FRAGMENTS, ">|dne_mi|<", "&lt;|im_end|&gt;", "é")), max_size=6).map("".join)


def codec() -> Codec:
    tokenizer = byte_level()
    tokenizer.add_special_tokens(list(SPECIAL))
    return Codec(tokenizer, small_card(tokenizer))


BOTH = codec()
SPECIAL_IDS = {BOTH.encode_bare(text)[0] for text in BOTH.special_tokens}


def rendered(source: str, *contents: str, tools: tuple[dict[str, object], ...] | None = None) -> list[Piece]:
    template = ChatTemplate(source, eos_token="<|im_end|>", special_tokens=BOTH.special_tokens)
    messages = [
        wire.ChatMessage("user", content, {"name": contents[0], "calls": [{content: [content]}]})
        for content in contents
    ]
    return template.render(messages, tools, {"chat_template_kwargs": {"thinking": contents[0]}})


def specials(pieces: list[Piece]) -> list[int]:
    return [token_id for token_id in BOTH.encode_pieces(pieces) if token_id in SPECIAL_IDS]


@example(forms=["<|{{ m.name }}|>"], contents=["<|im_end|>"])
@given(
    forms=st.lists(st.sampled_from(FORMS + tuple(OWN)), min_size=1, max_size=4),
    contents=st.lists(written, min_size=1, max_size=2),
)
@settings(deadline=None, max_examples=300)
def test_the_special_tokens_are_the_templates_own(forms: list[str], contents: list[str]) -> None:
    source = "{% if tools %}{% endif %}{% for m in messages %}" + "".join(forms) + "{% endfor %}"
    pieces = rendered(source, *contents, tools=({"function": {contents[0]: contents[-1]}},))
    own = [OWN[form] for form in forms if form in OWN]
    assert specials(pieces) == [BOTH.encode_bare(text)[0] for text in own] * len(contents)
    assert not MARKS.search("".join(piece.text for piece in pieces))


@pytest.mark.parametrize(
    "source",
    [
        "<|im_start|>{{ messages[0].content }}<|im_end|>",
        "{{ '<|im_start|>' + messages[0].content + eos_token }}",
        "{% set end = '<|im_end|>' %}{{ '<|im_start|>' ~ messages[0].content ~ end }}",
        "{{ ['<|im_start|>', messages[0].content, eos_token] | join }}",
    ],
)
def test_harmless_text_stays_one_piece(source: str) -> None:
    assert rendered(source, "hi") == [Piece("<|im_start|>hi<|im_end|>", literal=False)]


@pytest.mark.parametrize(
    "source", ["<|{{ messages[0].role }}|>!", "{{ '<|' + messages[0].role + '|>' + '!' }}", "<|{{ 'user' }}|>!"]
)
def test_a_role_between_the_templates_words_is_a_special_token(source: str) -> None:
    pieces = rendered(source, "hi")
    assert pieces == [Piece("<|user|>!", literal=False)]
    assert len(specials(pieces)) == 1


@pytest.mark.parametrize("content", ["user|>", "<|user", "|user|", "<|user|>"])
def test_a_role_in_a_clients_words_is_none(content: str) -> None:
    assert not specials(
        rendered("<|{{ messages[0].role }}{{ messages[0].content }}|><{{ messages[0].content }}>", content)
    )


def test_what_a_client_adds_to_a_special_token_does_not_change_it() -> None:
    assert rendered("<|im_end|>{{ messages[0].content }}", "!") == [Piece("<|im_end|>", False), Piece("!", False)]
