"""A request that makes its step raise: it alone ends with an error, and those in the same batch get what is theirs."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.faults import census
from tests.support.deployment import deployed
from tests.support.failing_executor import BAD_TOKEN

pytestmark = pytest.mark.integration

TOKENS = 24
PROMPTS = [[1000 + number, 2000, 3000 + number] for number in range(7)]


def test_one_of_a_batch_fails_alone(tmp_path):
    arguments = ("--set", "executor.module=tests.support.failing_executor", "--dtype", "float32", *census.SMALL_POOL)
    with deployed(tmp_path, *arguments) as server:
        generate = partial(server.generate, max_new_tokens=TOKENS, ignore_eos=True)
        with ThreadPoolExecutor(len(PROMPTS) + 1) as pool:
            undisturbed = list(pool.map(generate, PROMPTS))
            before = census.take(server)
            together = [pool.submit(generate, prompt) for prompt in PROMPTS]
            bad = pool.submit(server.post, "/generate", {"input_ids": [*PROMPTS[0], BAD_TOKEN]})
        assert bad.result().status_code == 500
        assert [one.result()["output_ids"] for one in together] == [one["output_ids"] for one in undisturbed]
        assert server.status("executor-1")["restarts"] == 0
        census.take(server).check(before)
