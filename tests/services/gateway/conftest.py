import pytest

from tests.support.tiny_card import TINY_CARD


@pytest.fixture
def tiny_card():
    return TINY_CARD
