"""Every store gives back what was put in, bit for bit: ours, and one that a user might write."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ggmc
from ggmc.errors import BadInput
from ggmc.kernels import GGMC
from ggmc.trace.store import Block, MemoryStore, Store
from ggmc.trace.trace import Trace
from tests.support.traces import Gaussian


class FolderStore(Store):
    """One .npz file for each block."""

    def __init__(self, folder: Path):
        self.folder = folder

    def append(self, block: Block) -> None:
        np.savez(self.folder / f"{len(self._files()):06d}.npz", rows=block.rows, **block.stats)  # pyright: ignore

    def rows(self) -> np.ndarray:
        return self._joined("rows")

    def stats(self) -> dict[str, np.ndarray]:
        if not self._files():
            raise BadInput("the store is empty")
        return {name: self._joined(name) for name in np.load(self._files()[0]).files if name != "rows"}

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.npz"))

    def _joined(self, name: str) -> np.ndarray:
        if not self._files():
            raise BadInput("the store is empty")
        return np.concatenate([np.load(file)[name] for file in self._files()], axis=1)


STORES: list[Callable[[Path], Store]] = [lambda _: MemoryStore(), FolderStore]


def blocks(dtype: str = "float32") -> list[Block]:
    random = np.random.default_rng(0)
    return [
        Block(
            random.standard_normal((3, draws, 2)).astype(dtype),
            {
                "lp": random.standard_normal((3, draws)),
                "diverging": random.random((3, draws)) < 0.5,
                "n_steps": random.integers(1, 9, (3, draws)),
                "kinetic_temperatures": random.random((3, draws, 4)),
            },
        )
        for draws in (5, 1, 7)
    ]


@pytest.fixture(params=STORES, ids=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return request.param(tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_read_is_what_was_appended(store: Store, dtype: str) -> None:
    given = blocks(dtype)
    for block in given:
        store.append(block)
    rows, stats = store.rows(), store.stats()
    assert rows.shape == (3, 13, 2)
    assert rows.dtype == dtype
    np.testing.assert_array_equal(rows, np.concatenate([block.rows for block in given], 1))
    assert list(stats) == list(given[0].stats)
    for name, array in stats.items():
        np.testing.assert_array_equal(array, np.concatenate([block.stats[name] for block in given], 1))
        assert array.dtype == given[0].stats[name].dtype


def test_a_store_can_be_read_while_it_fills(store: Store) -> None:
    first, *others = blocks()
    store.append(first)
    np.testing.assert_array_equal(store.rows(), first.rows)
    np.testing.assert_array_equal(store.stats()["lp"], first.stats["lp"])
    for block in others:
        store.append(block)
    np.testing.assert_array_equal(store.rows()[:, -7:], others[-1].rows)
    np.testing.assert_array_equal(store.rows()[:, :5], first.rows)
    assert store.stats()["lp"].shape == (3, 13)


def test_the_dict_of_statistics_is_the_readers_own(store: Store) -> None:
    store.append(blocks()[0])
    stats = store.stats()
    assert isinstance(stats, dict)
    stats.clear()
    assert "lp" in store.stats()


def test_an_empty_store_says_so(store: Store) -> None:
    with pytest.raises(BadInput, match="the store is empty"):
        store.rows()
    with pytest.raises(BadInput, match="the store is empty"):
        store.stats()


def test_a_store_can_be_pickled(store: Store) -> None:
    for block in blocks():
        store.append(block)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(store)).rows(), store.rows())


def test_a_trace_can_stand_on_any_store(store: Store) -> None:
    for block in blocks("float64"):
        store.append(block)
    trace = Trace(store, GGMC(0.1), Gaussian())
    assert (trace.num_chains, trace.num_draws) == (3, 13)
    np.testing.assert_array_equal(trace["theta"], store.rows())
    np.testing.assert_array_equal(trace.rows(thin=2).numpy(), store.rows()[:, ::2])


def test_a_run_fills_any_store(store: Store) -> None:
    options = {"draws": 120, "warmup": 10, "progress": False}
    trace = ggmc.sample(Gaussian(), ggmc.HMC(0.5, 3), store=store, **options)
    usual = ggmc.sample(Gaussian(), ggmc.HMC(0.5, 3), **options)
    assert trace.store is store
    np.testing.assert_array_equal(store.rows(), usual.rows().numpy())
    assert set(store.stats()) == set(usual.stats)
    np.testing.assert_array_equal(store.stats()["lp"], usual.stats["lp"])


@pytest.mark.parametrize("expected", [0, 7, 1000])
def test_each_number_is_kept_once(expected: int) -> None:
    store = MemoryStore(blocks(), draws=expected)
    assert np.shares_memory(store.rows(), store.rows())
    assert np.shares_memory(store.stats()["lp"], store.stats()["lp"])
    usual = np.concatenate([block.rows for block in blocks()], 1)
    np.testing.assert_array_equal(store.rows(), usual)


def test_draws_that_do_not_fit_are_kept_as_far_as_they_go() -> None:
    store = MemoryStore(draws=2**60)
    for block in blocks():
        store.append(block)
    assert store.rows().shape[1] == sum(block.rows.shape[1] for block in blocks())


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Block(np.zeros((2, 5, 2), "float32"), blocks()[0].stats), "chains 3, got 2"),
        (Block(np.zeros((3, 5, 4), "float32"), blocks()[0].stats), "d 2, got 4"),
        (Block(np.zeros((3, 5, 2)), blocks()[0].stats), "precision float32, got float64"),
        (Block(blocks()[0].rows, {"lp": np.zeros((3, 5))}), r"got \['lp'\]: give each run its own store"),
    ],
)
def test_the_draws_of_another_run_are_refused(other: Block, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        MemoryStore(blocks()).append(other)


def test_a_store_must_be_complete() -> None:
    class Half(Store):
        def append(self, block: Block) -> None: ...

    with pytest.raises(TypeError, match="abstract"):
        Half()  # pyright: ignore[reportAbstractUsage]
