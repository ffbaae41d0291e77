import torch

from scripts.bench.measure.outputs import GREEDY, SCENES, Output, generate, play
from services.executor.kv_pool import KvPool
from services.executor.radix_cache import RadixCache
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner
from tests.support.recording_model import RecordingModel, continuation

PREFIX, PROMPTS, NEW_TOKENS = tuple(range(20)), tuple((9, number) for number in range(20)), 5


def make_runner() -> StepRunner:
    slots = SlotAllocator(2000)
    pool = KvPool(torch.zeros(1, 2000, 1, 2), torch.zeros(1, 2000, 1, 2))
    return StepRunner(RecordingModel(), pool, slots, RadixCache(slots), eos_token_ids=(), max_model_len=200)


def test_outputs_are_the_models_in_the_order_of_the_prompts():
    for found in (generate(make_runner(), PROMPTS, NEW_TOKENS, 0), generate(make_runner(), PROMPTS[:1], NEW_TOKENS, 0)):
        assert [list(output.token_ids) for output in found] == [
            continuation(output.prompt, NEW_TOKENS) for output in found
        ]
        assert [output.prompt for output in found] == list(PROMPTS[: len(found)])
        assert all(len(output.logprobs) == NEW_TOKENS for output in found)


def test_scenes_share_what_they_say():
    hits: dict[str, int] = {}
    runner = make_runner()
    for scene in SCENES:
        before = runner.counters().hit_tokens
        found: list[Output] = list(play(scene, runner, PROMPTS, PREFIX, NEW_TOKENS))
        assert [output.prompt for output in found] == [(PREFIX if scene.shares else ()) + each for each in PROMPTS]
        hits[scene.name] = runner.counters().hit_tokens - before
    alone, drafting, at_once, cold, warm = hits.values()
    assert alone == drafting == at_once == 19  # all begin with one token
    assert cold == 19 * (len(PREFIX) + 1)
    assert warm > cold
    assert GREEDY.temperature == 0
