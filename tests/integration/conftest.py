from pathlib import Path

import pytest
from tokenizers import Tokenizer

from shared.model_card import TOKENIZER_FILE
from tests.support.bundled import bundled_folder
from tests.support.deployment import deployed


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The bundled model with two tokenizers, shared by all tests that do not harm it. Not the first start ever."""
    bundled_folder()
    with deployed(tmp_path_factory.mktemp("server"), "--tokenizers", "2") as deployment:
        yield deployment


@pytest.fixture(scope="session")
def tokenizer():
    """The bundled model's tokenizer, as the server's stages read it."""
    return Tokenizer.from_file(str(bundled_folder() / TOKENIZER_FILE))
