from services.gateway.stages import Stages
from shared import wire


def stages():
    """All four, well."""
    found = Stages(hang_timeout_s=30.0)
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
