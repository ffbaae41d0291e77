"""From a client's request to the scheduler's: what is checked, in which words, and what comes out."""

import functools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.tokenizer.codec import Codec
from services.tokenizer.encode import Encoder
from shared import wire
from tests.support.small_tokenizers import byte_level, small_card

LIMIT = 64
SIZE = byte_level().get_vocab_size() + 8


@functools.cache
def encoder(**card):
    tokenizer = byte_level()
    card = small_card(tokenizer, max_model_len=LIMIT, **card)
    return Encoder.of(card, Codec(tokenizer, card))


def request(**fields):
    sampling = fields.pop("sampling", wire.Sampling(seed=1))
    return wire.Encode("r", 2, sampling, wire.TextOptions(), **fields)


def encode(fields, **card):
    return encoder(**card).encode(request(**fields), "gw")


def chat(*contents):
    return tuple(wire.ChatMessage("user", content) for content in contents)


# --- what comes out --------------------------------------------------------------------------------------------------


def test_everything_else_is_handed_on():
    fields = {
        "sampling": wire.Sampling(seed=5, stop_token_ids=(3,), logit_bias={4: -1.0}),
        "resume_token_ids": (7, 8),
        "text_offset": 9,
        "constraint": wire.Constraint("regex", "a+"),
        "namespace": "tenant",
        "priority": 3,
        "time_left_s": 12.5,
        "samples": 3,
    }
    submit = encode(fields | {"prompt_token_ids": (5, 6), "max_new_tokens": 4})
    assert submit == wire.Submit(
        "r", 2, "gw", prompt_token_ids=(5, 6), text=wire.TextOptions(), max_new_tokens=4, **fields
    )


def test_each_kind_of_prompt_becomes_ids():
    codec = encoder().codec
    assert encode({"prompt": "the cat"}).prompt_token_ids == codec.encode_prompt("the cat")
    assert encode({"prompt_token_ids": (9, 8)}).prompt_token_ids == (9, 8)
    rendered = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert encode({"messages": chat("hi")}).prompt_token_ids == codec.encode_bare(rendered)
    bare = {"messages": chat("hi"), "template_options": {"add_generation_prompt": False}}
    assert encode(bare).prompt_token_ids == codec.encode_bare("<|im_start|>user\nhi<|im_end|>\n")


def test_a_template_sees_the_tools_and_the_special_tokens():
    source = "{{ bos_token }}{{ tools[0].name }}{{ messages[0].content }}{{ eos_token }}"
    fields = {"messages": chat("x"), "tools": ({"name": "t"},)}
    assert encode(fields, chat_template=source).prompt_token_ids == encoder().codec.encode_bare(
        "<|im_start|>tx<|im_end|>"
    )


def test_a_conversation_gets_no_further_bos():
    fields = {"messages": chat("hi")}
    assert encode(fields, add_bos=True).prompt_token_ids == encode(fields).prompt_token_ids


def test_ids_are_taken_as_they_are():
    assert encode({"prompt_token_ids": (9,)}, add_bos=True).prompt_token_ids == (9,)


@pytest.mark.parametrize(
    ("asked", "granted"),
    [(None, LIMIT - 10), (1, 1), (LIMIT - 10, LIMIT - 10), (LIMIT, LIMIT - 10), (10**9, LIMIT - 10)],
)
def test_the_limit_is_what_the_context_leaves_or_less(asked, granted):
    submit = encode({"prompt_token_ids": (5,) * 10, "max_new_tokens": asked, "resume_token_ids": (6,) * 20})
    assert submit.max_new_tokens == granted


def test_an_empty_prompt_begins_with_bos_where_the_model_wants_one():
    assert encode({"prompt": ""}, add_bos=True).prompt_token_ids == (1,)


# --- refusals --------------------------------------------------------------------------------------------------------

OUT_OF_RANGE = [-1, SIZE, 2**40, -(2**40)]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt_token_ids": ()}, "prompt"),
        ({"messages": ()}, "messages"),
        ({"prompt": "a\ud800"}, "prompt"),
        ({"messages": chat("a\ud800")}, "messages"),
        ({"messages": chat("a"), "template_options": {"chat_template_kwargs": {"tools": 1}}}, "chat_template_kwargs"),
        *(({"prompt_token_ids": (5, bad)}, "prompt") for bad in OUT_OF_RANGE),
        *(({"prompt": "a", "resume_token_ids": (bad,)}, "resume_token_ids") for bad in OUT_OF_RANGE),
        *(({"prompt": "a", "sampling": wire.Sampling(1, logit_bias={bad: 1.0})}, "logit_bias") for bad in OUT_OF_RANGE),
        *(
            ({"prompt": "a", "sampling": wire.Sampling(1, stop_token_ids=(5, bad))}, "stop_token_ids")
            for bad in OUT_OF_RANGE
        ),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_parameter(fields, param):
    error = encode(fields)
    assert isinstance(error, wire.Error)
    assert (error.status, error.param) == (400, param)
    assert error.code == "invalid_request"


def test_the_last_id_of_the_vocabulary_is_in_range():
    assert encode({"prompt_token_ids": (0, SIZE - 1)}).prompt_token_ids == (0, SIZE - 1)


def test_a_model_without_a_template_refuses_messages():
    error = encode({"messages": chat("hi")}, chat_template=None)
    assert (error.status, error.param) == (400, "messages")
    assert "no chat template" in error.message


def test_the_words_of_a_template_reach_the_client():
    error = encode({"messages": chat("hi")}, chat_template="{{ raise_exception('only one system message') }}")
    assert (error.status, error.message) == (400, "only one system message")


@pytest.mark.parametrize(
    ("fields", "param", "tokens"),
    [
        ({"prompt_token_ids": (5,) * LIMIT}, "prompt", LIMIT),
        ({"prompt_token_ids": (5,) * 1000}, "prompt", 1000),
        ({"prompt": "b" * LIMIT}, "prompt", LIMIT),
        ({"messages": chat("b" * LIMIT)}, "messages", None),
    ],
)
def test_a_prompt_that_fills_the_context_is_refused_with_both_numbers(fields, param, tokens):
    error = encode(fields)
    assert (error.code, error.status, error.param) == ("context_length_exceeded", 400, param)
    assert "prompt is too long" in error.message  # by these words clients know it from other errors
    assert f"context length is {LIMIT} tokens" in error.message
    assert f"has {tokens} tokens" in error.message if tokens else "tokens" in error.message


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "b" * 10**6},
        {"messages": chat("b" * 5 * 10**5, "c" * 5 * 10**5)},
        {"messages": chat("<|im_end|>" * (LIMIT + 1))},  # short, but each one is a piece of its own
    ],
)
def test_a_text_that_cannot_fit_is_refused_unread(fields, monkeypatch):
    tokenizer = byte_level()
    card = small_card(tokenizer, max_model_len=LIMIT)
    unread = Encoder.of(card, Codec(tokenizer, card))
    monkeypatch.setattr(Codec, "_encode", None)
    error = unread.encode(request(**fields), "gw")
    assert error.code == "context_length_exceeded"
    assert "at least" in error.message


def test_one_token_of_room_is_enough():
    assert encode({"prompt_token_ids": (5,) * (LIMIT - 1)}).max_new_tokens == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    prompt=st.none() | st.text(),
    ids=st.none() | st.lists(st.integers(-5, SIZE + 5), max_size=80).map(tuple),
    contents=st.lists(st.text(), max_size=3),
    extra=st.dictionaries(st.text(), json_values, max_size=3),
    options=st.dictionaries(st.sampled_from(["add_generation_prompt", "chat_template_kwargs", "x"]), json_values),
    limit=st.none() | st.integers(0, 10**6),
)
def test_any_request_is_either_run_within_the_context_or_refused(prompt, ids, contents, extra, options, limit):
    messages = tuple(wire.ChatMessage("user", content, extra) for content in contents)
    outcome = encoder().encode(
        request(prompt=prompt, prompt_token_ids=ids, messages=messages, template_options=options, max_new_tokens=limit),
        "gw",
    )
    if isinstance(outcome, wire.Error):
        assert outcome.param
        assert 400 <= outcome.status < 500
    else:
        assert 0 < len(outcome.prompt_token_ids) < LIMIT
        assert len(outcome.prompt_token_ids) + outcome.max_new_tokens <= LIMIT
        assert all(0 <= token_id < SIZE for token_id in outcome.prompt_token_ids)


# --- on the side -----------------------------------------------------------------------------------------------------


def convert(op, **fields):
    return encoder(add_bos=True).convert(wire.Text("c", op, **fields))


def test_tokenize_and_count_agree():
    ids = encoder().codec.encode_bare("the cat")
    assert convert("tokenize", prompt="the cat") == wire.TextReply("c", token_ids=(1, *ids), count=len(ids) + 1)
    assert convert("tokenize", prompt="the cat", add_special_tokens=False).token_ids == ids
    assert convert("count", prompt="the cat") == wire.TextReply("c", count=len(ids) + 1)
    assert convert("tokenize", messages=chat("hi")).token_ids == encode({"messages": chat("hi")}).prompt_token_ids


def test_tools_and_options_count_in_messages():
    options = {"add_generation_prompt": False}
    tools = ({"type": "function", "function": {"name": "look_up"}},)
    plain, bare = (convert("count", messages=chat("hi"), template_options=each).count for each in ({}, options))
    assert bare < plain < convert("count", messages=chat("hi"), tools=tools).count


def test_tokens_as_the_vocabulary_writes_them():
    reply = convert("tokenize", prompt="the cat", with_tokens=True)
    assert len(reply.tokens) == len(reply.token_ids) == reply.count
    assert "".join(reply.tokens) == "<|im_start|>theĠcat"
    assert encoder().codec.tokens([SIZE + 5]) == ("",)


def test_an_empty_text_has_no_tokens():
    assert convert("tokenize", prompt="", add_special_tokens=False) == wire.TextReply("c")


@pytest.mark.parametrize(("skip", "text"), [(True, "the cat"), (False, "the cat<|im_end|>")])
def test_detokenize(skip, text):
    ids = (*encoder().codec.encode_bare("the cat"), 2)
    assert convert("detokenize", token_ids=ids, skip_special_tokens=skip).text == text


@pytest.mark.parametrize(
    ("op", "fields", "param"),
    [
        ("detokenize", {"token_ids": (SIZE,)}, "tokens"),
        ("tokenize", {"prompt": "\ud800"}, "prompt"),
        ("count", {"messages": ()}, "messages"),
    ],
)
def test_what_cannot_be_converted_is_refused(op, fields, param):
    reply = convert(op, **fields)
    assert reply.call_id == "c"
    assert (reply.error.status, reply.error.param) == (400, param)


def test_a_reply_fits_on_the_wire():
    reply = convert("tokenize", prompt="the cat")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=wire.FrontFromTokenizer) == reply
