from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no_clock", deadline=None)  # a loaded machine is no failure
settings.load_profile("no_clock")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parent.parent
