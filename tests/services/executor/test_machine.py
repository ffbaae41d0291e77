from __future__ import annotations

from pathlib import Path

import torch

from services.executor.machine import available_bytes

CPU = torch.device("cpu")


def write(cgroup: Path, **files: str) -> Path:
    for name, content in files.items():
        (cgroup / name.replace("_", ".")).write_text(content + "\n")
    return cgroup


def test_without_a_limit_it_is_what_the_host_has(tmp_path: Path) -> None:
    unlimited = write(tmp_path, memory_max="max", memory_current="1000", cpu_max="max 100000")
    assert 2**20 < available_bytes(CPU, unlimited) < 2**50


def test_a_container_has_what_its_limit_leaves(tmp_path: Path) -> None:
    limited = write(tmp_path, memory_max="5000", memory_current="3000", memory_stat="anon 2500\ninactive_file 400")
    assert available_bytes(CPU, limited) == 2400


def test_no_control_group_is_no_limit(tmp_path: Path) -> None:
    assert available_bytes(CPU, tmp_path) > 2**20
