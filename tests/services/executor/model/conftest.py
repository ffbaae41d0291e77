import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tiny tensors gain nothing from a second thread, and waiting for it on a busy machine is slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
