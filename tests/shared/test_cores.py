import os

import pytest

from shared.cores import usable_cores


def test_without_a_quota_it_is_what_the_process_is_bound_to(tmp_path):
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("quota", ["100000 100000", "20000 100000", "0 100000"])
def test_a_quota_counts_in_whole_cores_and_leaves_one(tmp_path, quota):
    (tmp_path / "cpu.max").write_text(quota)
    assert usable_cores(tmp_path) == 1
