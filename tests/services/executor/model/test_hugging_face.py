import json

import pytest
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from services.executor.model.hugging_face import take_config, take_tokenizer, take_weights
from shared.config import ConfigError
from tests.support.tiny_model import CHAT_TEMPLATE, make_tiny_model


@pytest.fixture
def source(tmp_path):
    return make_tiny_model(tmp_path / "source")


@pytest.fixture
def target(tmp_path):
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def change(path, **changes):
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_links_the_weights_and_copies_the_rest(source, target):
    take_config(source, target)
    take_weights(source, target)
    take_tokenizer(source, target)
    assert (target / "model.safetensors").is_symlink()
    assert (target / "model.safetensors").samefile(source / "model.safetensors")
    for name in ("config.json", "tokenizer.json"):
        assert not (target / name).is_symlink()
        assert (target / name).read_bytes() == (source / name).read_bytes()


def test_links_all_files_of_an_index_and_no_others(source, target):
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "consolidated.safetensors"):
        (source / name).write_bytes((source / "model.safetensors").read_bytes())
    weight_map = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    take_weights(source, target)
    assert {path.name for path in target.iterdir()} == {*weight_map.values(), "model.safetensors.index.json"}


@pytest.mark.parametrize(
    ("left_out", "put_in", "take", "named"),
    [
        ("config.json", None, take_config, r"no config\.json"),
        ("tokenizer.json", None, take_tokenizer, r"no tokenizer\.json"),
        ("model.safetensors", None, take_weights, r"no model\.safetensors"),
        ("model.safetensors", "pytorch_model.bin", take_weights, r"only PyTorch \.bin weights"),
    ],
)
def test_says_what_a_folder_lacks(source, target, left_out, put_in, take, named):
    (source / left_out).unlink()
    if put_in:
        (source / put_in).write_bytes(b"")
    with pytest.raises(ConfigError, match=named):
        take(source, target)


def test_a_broken_file_is_named(source, target):
    (source / "tokenizer_config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cannot read .*tokenizer_config\.json"):
        take_tokenizer(source, target)


def test_special_tokens(source, target):
    special = take_tokenizer(source, target)
    assert (special.bos_token_id, special.bos_token, special.add_bos) == (1, "<|im_start|>", False)
    assert (special.eos_token, special.eos_token_ids) == ("<|im_end|>", (0, 2))
    assert special.chat_template == CHAT_TEMPLATE


def test_end_tokens_come_from_every_file_that_names_some(source, target):
    change(source / "config.json", eos_token_id=[300])
    change(source / "generation_config.json", eos_token_id=301)
    assert take_tokenizer(source, target).eos_token_ids == (0, 2, 300, 301)


def test_tokens_may_be_written_as_objects_or_not_at_all(source, target):
    change(source / "tokenizer_config.json", bos_token={"content": "<|endoftext|>"}, eos_token=None)
    special = take_tokenizer(source, target)
    assert (special.bos_token_id, special.bos_token, special.eos_token) == (0, "<|endoftext|>", "")


def test_bos_is_added_if_the_tokenizer_itself_adds_it_and_nothing_is_said(source, target):
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.post_processor = TemplateProcessing("<|im_start|> $A", None, [("<|im_start|>", 1)])
    tokenizer.save(str(source / "tokenizer.json"))
    assert not take_tokenizer(source, target).add_bos
    change(source / "tokenizer_config.json", add_bos_token=None)
    assert take_tokenizer(source, target).add_bos


def test_the_chat_template_may_be_a_file_a_list_or_missing(source, target):
    several = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    change(source / "tokenizer_config.json", chat_template=several)
    assert take_tokenizer(source, target).chat_template == "plain"
    (source / "chat_template.jinja").write_text("from a file")
    assert take_tokenizer(source, target).chat_template == "from a file"
    (source / "chat_template.jinja").unlink()
    change(source / "tokenizer_config.json", chat_template=None)
    assert take_tokenizer(source, target).chat_template is None
