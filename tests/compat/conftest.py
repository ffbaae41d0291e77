import pytest

from tests.support.deployment import deployed


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with deployed(tmp_path_factory.mktemp("server")) as deployment:
        yield deployment
