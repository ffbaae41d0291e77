import os
import select
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from services.executor.attention.base import Segment, SlotRun
from services.executor.attention.reference import ReferenceAttention
from services.executor.model.forward import Batch
from services.executor.model.load import load_model
from services.executor.model.prepare import prepare
from shared.config import Config, ConfigError, ModelConfig, dump
from shared.model_card import load_card, prepared_folder
from tests.support.tiny_gguf import make_tiny_gguf
from tests.support.tiny_model import make_tiny_model


@pytest.fixture
def folder(tmp_path):
    return make_tiny_model(tmp_path / "model")


def settings(path, tmp_path, **changes):
    return ModelConfig(path=str(path), cache_dir=str(tmp_path / "cache"), **changes)


def logits(folder):
    model = load_model(folder, attention=ReferenceAttention(), device=torch.device("cpu"), dtype=torch.float32)
    keys, values = torch.zeros(2, model.shape.layers, 8, model.shape.kv_heads, model.shape.head_dim)
    places = torch.arange(8)
    whole = (Segment(0, 8, (SlotRun(0, 8),), causal=True),)
    return model.forward(Batch(places + 30, places, places, whole, places), keys, values)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_a_gguf_file_computes_what_its_folder_does(tmp_path, architecture):
    folder = make_tiny_model(tmp_path / "model", architecture)
    path = make_tiny_gguf(tmp_path / "model.gguf", folder)
    from_folder, from_gguf = prepare(settings(folder, tmp_path)), prepare(settings(path, tmp_path))
    assert from_folder != from_gguf
    torch.testing.assert_close(logits(from_gguf), logits(from_folder))


def test_writes_the_card(tmp_path, folder):
    config = settings(folder, tmp_path)
    prepare(config)
    card = load_card(config)
    assert (card.model_id, card.architecture, card.source) == ("model", "llama", str(folder))
    assert (card.max_model_len, card.vocab_size) == (1024, 320)
    assert (card.eos_token_ids, card.bos_token_id, card.add_bos) == ((0, 2), 1, False)


def test_the_configuration_names_the_model_and_shortens_its_context(tmp_path, folder):
    config = settings(folder, tmp_path, name="tiny", context_length=100)
    assert prepare(config) == prepare(settings(folder, tmp_path)), "one copy of the weights serves any name and limit"
    card = load_card(config)
    assert (card.model_id, card.max_model_len) == ("tiny", 100)


def test_a_context_over_the_models_is_refused(tmp_path, folder):
    with pytest.raises(ConfigError, match=r"model\.context_length: 5000 is over the model's 1024"):
        prepare(settings(folder, tmp_path, context_length=5000))


def test_the_second_time_nothing_is_done(tmp_path, folder, monkeypatch):
    first = prepare(settings(folder, tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", None)  # where a folder would be built
    assert prepare(settings(folder, tmp_path)) == first == prepared_folder(settings(folder, tmp_path))


@pytest.mark.parametrize(
    ("break_it", "named"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), r"no tokenizer\.json"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "t5"}'), "unsupported architecture 't5'"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), r"\.bin weights"),
    ],
)
def test_a_failure_leaves_nothing_behind(tmp_path, folder, break_it, named):
    break_it(folder)
    with pytest.raises(ConfigError, match=named):
        prepare(settings(folder, tmp_path))
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a model")
    with pytest.raises(ConfigError, match=r"notes\.txt is no GGUF file"):
        prepare(settings(path, tmp_path))


def test_several_processes_may_prepare_at_once(tmp_path, folder):
    config = settings(make_tiny_gguf(tmp_path / "model.gguf", folder), tmp_path)
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as processes:
        found = list(processes.map(prepare, [config] * 8))
    assert set(found) == {prepared_folder(config)}
    assert [path.name for path in (tmp_path / "cache" / "models").iterdir()] == [found[0].name]
    load_card(config)


def run(config, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_bytes(dump(Config(model=config)))
    command = [sys.executable, "-m", "services.executor.model.prepare", "--config", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_prints_the_folder(tmp_path, folder, repository, monkeypatch):
    monkeypatch.chdir(repository)
    done = run(settings(folder, tmp_path), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{prepared_folder(settings(folder, tmp_path))}\n"


def test_the_command_says_what_is_wrong_in_one_line(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    done = run(settings(tmp_path / "nowhere", tmp_path), tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"sapwood: model.path: there is no {tmp_path / 'nowhere'}\n"


def test_the_command_ends_with_whoever_started_it(tmp_path, repository):
    """Its configuration is a pipe that nobody fills, so that it is under way for as long as it lives."""
    pipe = tmp_path / "config.yaml"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "services.executor.model.prepare", "--config", str(pipe)]
    code = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    launcher = subprocess.Popen([sys.executable, "-c", code, *command], cwd=repository)
    with pipe.open("wb", buffering=0) as end:  # opened once the command reads it
        poll = select.poll()
        poll.register(end, select.POLLERR)
        launcher.kill()
        launcher.wait()
        has_ended = bool(poll.poll(10_000))
        if not has_ended:
            end.write(b"a configuration that it refuses")
    assert has_ended


def test_needs_no_torch(repository):
    code = "import sys, services.executor.model.prepare; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=repository, check=False).returncode == 0
