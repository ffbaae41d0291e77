from pathlib import Path

import pytest

from tests.support.deployment import deployed


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The bundled model with two tokenizers, shared by all tests that do not harm it."""
    with deployed(tmp_path_factory.mktemp("server"), "--tokenizers", "2") as deployment:
        yield deployment


@pytest.fixture(scope="session")
def tokenizer():
    """The bundled model's tokenizer, as the server's stages read it."""
    from tokenizers import Tokenizer

    from shared.config import ModelConfig
    from shared.model_card import prepared_folder

    return Tokenizer.from_file(str(prepared_folder(ModelConfig()) / "tokenizer.json"))
