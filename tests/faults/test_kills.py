"""Stages that die or stop under open streams: every stream ends whole, with the tokens of an undisturbed run.

A sample in the quick tier; `--soak` has twenty of each. All in float32: with halves, or 16-bit products, a draw on an
edge falls either way more often.
"""

import asyncio
import random
import signal
import statistics
import time
from collections import defaultdict

import aiohttp
import pytest

from tests.faults import census, ties
from tests.faults.workload import STREAMS, TOKENS, WORK, Crowd
from tests.support.deployment import deployed, wait_until

pytestmark = pytest.mark.integration

RUNS = 20
RUNS_OF_A_PAIR = 3
SILENCE_S = 5.0  # links.silence_s
HANG_S = 9.0
SLOW_START_S = 12.0  # longer than both: a process that starts is not taken for one that hangs
STAGES = {
    "tokenizer": ("tokenizer-1", "tokenizer-2"),
    "scheduler": ("scheduler",),
    "executor": ("executor-1",),
    "detokenizer": ("detokenizer-1", "detokenizer-2"),
}
PAIRS = (
    ("tokenizer", "scheduler"),
    ("tokenizer", "executor"),
    ("tokenizer", "detokenizer"),
    ("scheduler", "executor"),
    ("scheduler", "detokenizer"),
    ("executor", "detokenizer"),
    ("tokenizer", "tokenizer"),
    ("detokenizer", "detokenizer"),
)


def runs(values, count, sample=()):
    """Each with each of its runs; but for the first runs of the sample they are soak.

    In turns, so that a process has run for a while when its turn comes: one that dies again and again rests longer.
    """
    return [
        pytest.param(value, run, marks=() if run == 0 and value in sample else pytest.mark.soak)
        for run in range(count)
        for value in values
    ]


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    arguments = ("--tokenizers", "2", "--detokenizers", "2", "--dtype", "float32")
    with deployed(
        tmp_path_factory.mktemp("run"), *arguments, "--set", f"supervisor.hang_timeout_s={HANG_S}"
    ) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def undisturbed(fragile):
    return asyncio.run(Crowd(fragile.url).run())


@pytest.fixture(scope="module")
def at_rest(fragile, undisturbed):
    """What it holds once all of it has been used."""
    return census.take(fragile)


@pytest.fixture(scope="module")
def pauses():
    """By what was done: of each run the streams' pauses. Told at the end."""
    found = defaultdict(list)
    yield found
    for what, of_runs in found.items():
        medians = [statistics.median(run) for run in of_runs]
        longest = max(max(run) for run in of_runs)
        pause = f"{statistics.median(medians):.2f} s (median), {longest:.2f} s (longest)"
        print(f"\n{what}: {len(of_runs)} runs, a pause of {pause}")


def some_moment(stage, chance):
    """How many tokens the clients have when it happens. A tokenizer has work at the beginning alone."""
    return 0 if stage == "tokenizer" else chance.randrange(int(STREAMS * TOKENS * 0.9))


async def disturbed(deployment, moment, disturb):
    """The streams, and when they were disturbed."""
    crowd = Crowd(deployment.url)
    streams = asyncio.create_task(crowd.run())
    await asyncio.sleep(0)
    await crowd.reach(moment)
    happened_s = time.monotonic()
    await disturb()
    return await streams, happened_s


def compare(watched, undisturbed):
    """Token by token, up to a tie. Returns the ties' distances."""
    found = []
    for work, ours, theirs in zip(WORK, watched, undisturbed, strict=True):
        place = ties.first_difference(ours.token_ids, theirs.token_ids)
        if place is None:
            assert ours.token_ids == theirs.token_ids
            assert ours.final["text"] == theirs.final["text"]
            assert ours.final["meta_info"]["finish_reason"] == theirs.final["meta_info"]["finish_reason"]
        else:
            found.append(ties.distance(work, ours.token_ids[:place], ours.token_ids[place], theirs.token_ids[place]))
            print(f"stream {work.number} parts at token {place}: {found[-1]:.1e} from the other choice")
        assert ours.logprobs[:place] == pytest.approx(theirs.logprobs[:place], abs=ties.LOGPROB_ERROR)
    assert all(far < ties.TIE for far in found)
    return found


def check(fragile, undisturbed, at_rest, pauses, what, outcome):
    watched, happened_s = outcome
    compare(watched, undisturbed)
    pauses[what].append([one.pause_s(happened_s) for one in watched])
    census.take(fragile).check(at_rest)


@pytest.mark.soak
def test_the_judge_of_ties_agrees_with_what_was_chosen(undisturbed):
    for work, watched in list(zip(WORK, undisturbed, strict=True))[:12]:  # two of each kind
        ids = watched.token_ids
        place = len(ids) // 2
        assert ties.distance(work, ids[:place], ids[place], ids[place]) < ties.TIE, work


@pytest.mark.parametrize(("stage", "run"), runs(STAGES, RUNS, sample=STAGES))
def test_a_stage_is_killed(fragile, undisturbed, at_rest, pauses, stage, run):
    chance = random.Random(f"{stage} {run}")
    victim, moment = chance.choice(STAGES[stage]), some_moment(stage, chance)
    restarts = fragile.status(victim)["restarts"]

    async def kill():
        if stage == "tokenizer":
            if run % 2 == 0:  # so it certainly dies with requests in hand
                fragile.kill(victim, signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(0.05, 0.3))
        fragile.kill(victim)

    outcome = asyncio.run(disturbed(fragile, moment, kill))
    if stage != "tokenizer" or run % 2 == 0:
        assert any(line.get("attempts", 0) > 1 for line in fragile.lines("request")[-STREAMS:]), (
            "the kill hit no stream"
        )
    fragile.wait_restarted(victim, restarts + 1)
    check(fragile, undisturbed, at_rest, pauses, f"{stage} killed", outcome)


@pytest.mark.parametrize(("stage", "run"), runs(STAGES, RUNS))
def test_a_stage_stops_for_longer_than_the_silence_limit(fragile, undisturbed, at_rest, pauses, stage, run):
    """Every other one goes on by itself, with all that it had in hand; the rest are killed by their supervisor."""
    chance = random.Random(f"{stage} {run}")
    victim, moment = chance.choice(STAGES[stage]), some_moment(stage, chance)
    status = fragile.status(victim)

    async def stop():
        fragile.kill(victim, signal.SIGSTOP)
        await asyncio.sleep(SILENCE_S + 1)
        if run % 2 == 0:
            fragile.kill(victim, signal.SIGCONT)

    outcome = asyncio.run(disturbed(fragile, moment, stop))
    if run % 2 == 1:
        fragile.wait_restarted(victim, status["restarts"] + 1)
    check(fragile, undisturbed, at_rest, pauses, f"{stage} stopped", outcome)
    assert fragile.status(victim)["restarts"] == status["restarts"] + run % 2


@pytest.mark.parametrize(("pair", "run"), runs(PAIRS, RUNS_OF_A_PAIR))
def test_two_stages_are_killed_at_once(fragile, undisturbed, at_rest, pauses, pair, run):
    chance = random.Random(f"{pair} {run}")
    victims = STAGES[pair[0]] if pair[0] == pair[1] else [chance.choice(STAGES[stage]) for stage in pair]
    moment = some_moment("tokenizer" if "tokenizer" in pair else pair[0], chance)
    restarts = [fragile.status(victim)["restarts"] for victim in victims]

    async def kill():
        for victim in victims:
            fragile.kill(victim)

    outcome = asyncio.run(disturbed(fragile, moment, kill))
    for victim, before in zip(victims, restarts, strict=True):
        fragile.wait_restarted(victim, before + 1)
    check(fragile, undisturbed, at_rest, pauses, f"{' and '.join(pair)} killed", outcome)


@pytest.mark.soak
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_starts_slowly(fragile, undisturbed, at_rest, pauses, stage):
    victim = STAGES[stage][0]
    before = fragile.status(victim)

    def is_starting():
        now = fragile.status(victim)
        return now["state"] == "starting" and now["pid"] != before["pid"]

    async def kill_and_hold():
        fragile.kill(victim)
        await asyncio.to_thread(wait_until, is_starting, 60, "started again")
        fragile.kill(victim, signal.SIGSTOP)
        await asyncio.sleep(SLOW_START_S)
        fragile.kill(victim, signal.SIGCONT)

    outcome = asyncio.run(disturbed(fragile, some_moment(stage, random.Random(stage)), kill_and_hold))
    fragile.wait_restarted(victim, before["restarts"] + 1)
    check(fragile, undisturbed, at_rest, pauses, f"{stage} killed, and slow to start", outcome)
    assert fragile.status(victim)["restarts"] == before["restarts"] + 1


def test_a_killed_gateway_ends_its_connections_and_its_work(fragile, at_rest):
    restarts = fragile.status("gateway")["restarts"]

    async def kill():
        fragile.kill("gateway")

    with pytest.raises((aiohttp.ClientError, AssertionError)):  # in the middle of a chunk, or between two
        asyncio.run(disturbed(fragile, STREAMS * TOKENS // 4, kill))
    fragile.wait_restarted("gateway", restarts + 1)
    census.take(fragile).check(at_rest)


def test_a_late_tokenizer_takes_its_part(fragile):
    wait_until(lambda: census.is_ready(fragile), 60, "ready")
    fragile.start_extra("tokenizer", "tokenizer-4")

    def everyone_worked():
        fragile.generate("Hi", max_new_tokens=1)
        services = {line["service"] for line in fragile.lines("encoded")}
        return services >= {"tokenizer-1", "tokenizer-2", "tokenizer-4"}

    wait_until(everyone_worked, 30, "three tokenizers in the log")
