"""What is kept of a request is enough to submit it anew, whole."""

from services.gateway.generation import GenerateRequest
from services.gateway.open_request import OpenRequest
from shared import wire

FIELDS = {
    "sampling": wire.Sampling(seed=3),
    "text": wire.TextOptions(stop=("x",)),
    "constraint": wire.Constraint("choices", '["a"]', strict=False),
    "namespace": "tenant",
    "priority": 2,
}
MESSAGES = (wire.ChatMessage("user", "Hi"),)
TOOLS = ({"type": "function", "function": {"name": "f"}},)


def opened(**fields):
    request = GenerateRequest(**FIELDS, max_new_tokens=9, **fields)
    return OpenRequest("r", request, expires_s=12.0, progressed_s=0.0, attempt=2)


def test_an_encode_says_all_of_it():
    entry = opened(messages=MESSAGES, tools=TOOLS, template_options={"add_generation_prompt": False}, samples=3)
    entry.token_ids, entry.text_length = [7, 8], 4
    assert entry.encode(now_s=7.0) == wire.Encode(
        "r",
        2,
        **FIELDS,
        messages=MESSAGES,
        tools=TOOLS,
        resume_token_ids=(7, 8),
        text_offset=4,
        max_new_tokens=9,
        time_left_s=5.0,
        template_options={"add_generation_prompt": False},
        samples=3,
    )


def test_a_submit_says_all_that_a_scheduler_needs():
    entry = opened(prompt="Hi")
    entry.prompt_token_ids, entry.max_new_tokens = (1, 2), 6
    entry.token_ids, entry.text_length = [7], 2
    assert entry.submit("gw", now_s=7.0) == wire.Submit(
        *("r", 2, "gw", (1, 2)),
        **FIELDS,
        max_new_tokens=6,
        resume_token_ids=(7,),
        text_offset=2,
        time_left_s=5.0,
    )
