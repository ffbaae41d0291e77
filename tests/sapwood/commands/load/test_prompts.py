from hypothesis import given
from hypothesis import strategies as st

from sapwood.commands.load.prompts import prompts


@given(st.integers(0, 9), st.integers(0, 50))
def test_prompts_share_their_beginning(seed, shared_tokens):
    made = prompts(seed, requests=4, prompt_tokens=60, shared_tokens=shared_tokens)
    words = [prompt.split() for prompt in made]
    assert {len(prompt) for prompt in words} == {60}
    assert len({tuple(prompt[:shared_tokens]) for prompt in words}) == 1
    assert len({tuple(prompt[shared_tokens:]) for prompt in words}) == 4
    assert made == prompts(seed, requests=4, prompt_tokens=60, shared_tokens=shared_tokens)


def test_another_seed_shares_nothing():
    first, second = (prompts(seed, requests=1, prompt_tokens=9, shared_tokens=8)[0].split() for seed in (1, 2))
    assert first != second
