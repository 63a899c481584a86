import warnings

import pytest
import torch

from ggmc.targets import traced

# ArviZ 0.23 writes a stamp at its first import of a day, and two processes at once trip over each other there: let the
# process that starts the others go first.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz as _arviz  # noqa: F401


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Tests run side by side; more threads each would only get in each other's way."""
    torch.set_num_threads(1)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of targets are called each time, so that a test can count the calls."""
    monkeypatch.setattr(traced, "CALLS_FIRST", -1)
