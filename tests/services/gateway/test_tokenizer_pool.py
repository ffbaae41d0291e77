from services.gateway.tokenizer_pool import TokenizerPool


def pool(**granted):
    found = TokenizerPool()
    for peer, credit in granted.items():
        found.joined(peer, peer.upper())
        found.ready(peer, credit)
    return found


def test_turns_and_credits():
    tokenizers = pool(a=2, b=1)
    assert [tokenizers.take((str(i), 1), 0.0) for i in range(4)] == ["a", "b", "a", None]
    tokenizers.answered("a", ("0", 1))
    assert tokenizers.take(("4", 1), 0.0) == "a"


def test_who_joins_has_no_credit_until_it_is_ready():
    tokenizers = pool()
    tokenizers.joined("a", "A")
    assert tokenizers.take(("0", 1), 0.0) is None


def test_who_is_about_to_stop_gives_no_credit():
    tokenizers = pool(a=1)
    tokenizers.ready("a", 0)
    assert tokenizers.take(("0", 1), 0.0) is None


def test_who_leaves_gives_back_what_it_had():
    tokenizers = pool(a=3)
    tokenizers.take(("x", 1), 0.0)
    tokenizers.take(("y", 2), 0.0)
    tokenizers.answered("a", ("x", 1))
    assert tokenizers.left("a") == [("y", 2)]
    assert tokenizers.left("a") == []
    assert tokenizers.name("a") is None


def test_answers_of_strangers_are_ignored():
    tokenizers = pool(a=1)
    tokenizers.ready("b", 5)
    tokenizers.answered("b", ("x", 1))
    tokenizers.answered("a", ("x", 1))
    assert tokenizers.take(("0", 1), 0.0) == "a"
    assert tokenizers.name("a") == "A"


def test_a_credit_without_an_answer_comes_back():
    tokenizers = pool(a=2)
    tokenizers.take(("x", 1), 1.0)
    tokenizers.take(("y", 1), 2.0)
    tokenizers.expire(taken_before_s=2.0)
    assert tokenizers.left("a") == [("y", 1)]


def test_an_answer_after_all_gives_no_second_credit():
    tokenizers = pool(a=1)
    tokenizers.take(("x", 1), 1.0)
    tokenizers.expire(taken_before_s=5.0)
    assert tokenizers.take(("y", 1), 5.0) == "a"
    tokenizers.answered("a", ("x", 1))
    assert tokenizers.take(("z", 1), 5.0) is None
