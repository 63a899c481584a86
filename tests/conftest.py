import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Tests run side by side; more threads each would only get in each other's way."""
    torch.set_num_threads(1)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)
