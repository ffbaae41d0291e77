from itertools import combinations

import numpy as np

from scripts.bench.measure.mixture import Asked, Mixture
from shared.tokens import common_tokens


def asked(seed: int, count: int = 300) -> list[Asked]:
    """Each is answered before the next one comes."""
    mixture = Mixture(seed)
    found = []
    for _ in range(count):
        found.append(mixture.next())
        mixture.answered(found[-1], (1, 2, 3))
    return found


def test_a_seed_decides_all():
    assert asked(1) == asked(1) != asked(2)


def test_there_are_all_kinds():
    found = asked(1)
    assert sum(each.cancelled_after is not None for each in found) > 3
    assert all(0 <= each.output_tokens <= each.new_tokens for each in found)
    assert any(each.prompt[i : i + 3] == (1, 2, 3) for each in found if each.is_chat for i in range(len(each.prompt)))
    others = [np.array(each.prompt) for each in found if not each.is_chat]
    shared = [common_tokens(one, other) for one, other in combinations(others, 2)]
    assert 0 in shared
    assert max(shared) > 500
