import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scripts.bench.gpu.agreement import Tokens
from tests.support.tiny_model import make_tiny_model

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # those of transformers are not ours
    from scripts.bench import gpu_check
    from scripts.bench.gpu.exactness import Exactness

pytestmark = pytest.mark.oracle


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path / "model", hidden_size=32, head_dim=16, num_attention_heads=4)


def test_quickly_on_the_cpu(model: Path, tmp_path: Path, repository: Path) -> None:
    command = [sys.executable, "-m", "scripts.bench.gpu_check", "--device", "cpu", "--quick"]
    command += ["--model", str(model), "--json", str(tmp_path / "found.json")]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found["machine"]["attention"] == "ReferenceAttention"
    assert [result["dtype"] for result in found["exactness"]] == ["float32", "bfloat16"]
    assert [(result["kind"], result["sequences"]) for result in found["steps"]] == [
        ("decode", 1),
        ("decode", 2),
        ("chunk", 1),
    ]
    assert len(found["attention"]) == 1
    assert found["copy_gb_s"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main([]) == gpu_check.NO_DEVICE
    assert "no CUDA device" in capsys.readouterr().err


def test_a_bad_result_makes_the_report_bad() -> None:
    report = gpu_check.Report()
    fine = Exactness("float32", Tokens(1, 0, 0), tie=0.1, largest=0.0, error=0.0, their_error=0.0)
    report.add("exactness", "tokens and logits", [fine])
    assert report.is_good
    report.add("exactness", "tokens and logits", [replace(fine, tokens=Tokens(0, 0, 1))])
    assert not report.is_good
