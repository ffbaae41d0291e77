import pytest

from shared.reasoning_format import ReasoningFormat, reasoning_format

MESSAGES = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}"
QWEN3 = (
    f"{MESSAGES}<think>"
    r"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    r"{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{% endif %}"
)
QWQ = MESSAGES + r"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}"
DEEPSEEK = (
    f"{MESSAGES}{{% if add_generation_prompt %}}<A>"
    "{% if not thinking %}{{ '</think>' }}{% else %}{{ '<think>' }}{% endif %}{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "style"),
    [
        (None, None),
        ("{{ messages }}", None),
        (QWEN3, ReasoningFormat(switch="enable_thinking")),
        (QWQ, ReasoningFormat(is_opened=True)),
        (DEEPSEEK, ReasoningFormat(is_opened=True, switch="thinking", is_on=False)),
    ],
)
def test_the_template_shows_it(template, style):
    assert reasoning_format(template) == style


@pytest.mark.parametrize(
    ("template", "options", "is_opened"),
    [
        (QWQ, {}, True),
        (QWQ, {"add_generation_prompt": False}, False),
        (QWQ, {"chat_template_kwargs": {"enable_thinking": False}}, True),  # it has no such switch
        (QWEN3, {"chat_template_kwargs": {"enable_thinking": True}}, False),
        (DEEPSEEK, {}, False),
        (DEEPSEEK, {"chat_template_kwargs": {"thinking": True}}, True),
    ],
)
def test_whether_the_prompt_opens_the_thought(template, options, is_opened):
    assert reasoning_format(template).after(options, "").is_opened == is_opened


@pytest.mark.parametrize(
    ("last_words", "is_opened"), [("Yes", False), ("<think>Hm", True), ("<think>Hm</think>", False), ("x<think>", True)]
)
def test_a_message_that_is_continued_may_have_opened_it(last_words, is_opened):
    for template in (QWEN3, QWQ):
        style = reasoning_format(template).after({"continue_final_message": True}, last_words)
        assert style.is_opened == is_opened
