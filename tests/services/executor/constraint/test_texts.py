"""The texts that are kept, against a plain list in order of use."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.constraint.texts import Texts

ACTIONS = st.lists(st.tuples(st.sampled_from(("put", "get", "forget")), st.sampled_from("abcd"), st.text(max_size=7)))


@given(ACTIONS)
@settings(deadline=None)
def test_the_last_used_stay(actions: list[tuple[str, str, str]]) -> None:
    texts, plain = Texts(12), dict[str, str]()
    for action, key, text in actions:
        found = plain.pop(key, None)
        if action == "put":
            texts.put(key, text)
            plain[key] = text
        elif action == "forget":
            texts.forget(key)
        else:
            assert texts.get(key) == found
            plain.update({} if found is None else {key: found})
        while sum(map(len, plain.values())) > 12:
            plain.pop(next(iter(plain)))
        texts.check_integrity()
    assert {key: texts.get(key) for key in "abcd"} == {key: plain.get(key) for key in "abcd"}


def test_one_that_is_larger_than_the_budget_is_not_kept() -> None:
    texts = Texts(12)
    texts.put("a", "x" * 13)
    assert texts.get("a") is None
    texts.check_integrity()
