from scripts.bench.gpu.agreement import Tokens
from scripts.bench.gpu.exactness import Exactness

GOOD = Tokens(equal=10, ties=1, wrong=0)


def test_a_wrong_token_is_bad() -> None:
    assert not Exactness("float32", Tokens(10, 0, 1), tie=0.1, largest=0.0, error=0.0, their_error=0.0).is_good


def test_float32_has_a_limit_of_its_own() -> None:
    assert Exactness("float32", GOOD, tie=0.1, largest=1e-3, error=1e-4, their_error=0.0).is_good
    assert not Exactness("float32", GOOD, tie=0.1, largest=0.1, error=1e-4, their_error=0.0).is_good


def test_a_half_type_is_held_against_the_rounding_of_transformers() -> None:
    assert Exactness("bfloat16", GOOD, tie=0.1, largest=0.5, error=0.12, their_error=0.1).is_good
    assert not Exactness("bfloat16", GOOD, tie=0.1, largest=0.5, error=0.2, their_error=0.1).is_good
