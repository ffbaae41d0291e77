from services.gateway.stages import NEEDED, Stages
from shared import wire


def stages(clock=lambda: 0.0):
    """All four, well."""
    found = Stages(30.0, clock)
    for role in ("tokenizer", "scheduler", "detokenizer"):
        found.joined(role, role, f"{role}-1")
    found.progressed("scheduler", wire.Progress(peers={"executor": 1}))
    return found


def test_all_is_well():
    assert stages().troubles() == {}
    assert stages().counts() == {"tokenizer": 1, "scheduler": 1, "executor": 1, "detokenizer": 1}


def test_a_missing_stage_is_named():
    found = stages()
    assert found.left("tokenizer").name == "tokenizer-1"
    assert found.troubles() == {"tokenizer": "none is connected"}


def test_a_missing_stage_is_told_with_how_long_and_how_often():
    now = [100.0]
    found = stages(lambda: now[0])
    assert found.missing() == {}
    found.left("tokenizer")
    now[0] = 104.24
    assert found.missing() == {"tokenizer": {"missing_s": 4.2, "lost": 1}}
    found.joined("tokenizer", "tokenizer", "tokenizer-1")
    assert found.missing() == {}
    now[0] = 110.0
    found.left("tokenizer")
    now[0] = 111.0
    assert found.missing() == {"tokenizer": {"missing_s": 1.0, "lost": 2}}


def test_at_the_start_all_are_missing():
    assert {role: missing["lost"] for role, missing in Stages(30.0).missing().items()} == dict.fromkeys(NEEDED, 0)


def test_executors_are_lost_as_often_as_all_schedulers_have_seen():
    found = stages()
    found.progressed("scheduler", wire.Progress(peers={"executor": 0}, lost={"executor": 3, "tokenizer": 9}))
    assert found.missing()["executor"]["lost"] == 3
    found.left("scheduler")
    found.joined("scheduler-2", "scheduler", "scheduler")
    found.progressed("scheduler-2", wire.Progress(peers={"executor": 1}, lost={"executor": 1}))
    assert found.lost() == {"tokenizer": 0, "scheduler": 1, "executor": 4, "detokenizer": 0}


def test_executors_are_seen_through_the_scheduler():
    found = stages()
    found.progressed("scheduler", wire.Progress(peers={"executor": 0}))
    assert list(found.troubles()) == ["executor"]
    found.left("scheduler")
    assert set(found.troubles()) == {"scheduler", "executor"}


def test_a_stage_hangs_when_all_of_it_does():
    found = stages()
    found.joined("t2", "tokenizer", "tokenizer-2")
    found.progressed("tokenizer", wire.Progress(step_age_s=31.0))
    assert found.troubles() == {}
    found.progressed("t2", wire.Progress(step_age_s=45.0))
    assert found.troubles() == {"tokenizer": "no progress for 31 s"}


def test_what_a_stranger_says_is_ignored():
    found = stages()
    found.progressed("stranger", wire.Progress(peers={"executor": 5}))
    assert found.counts()["executor"] == 1
