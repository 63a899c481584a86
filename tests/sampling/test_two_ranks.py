"""Runs on two ranks, by torchrun with gloo: the draws are those of one process, and nothing is lost with a rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from tests.support.ranks import CASES, LENGTH, case
from tests.support.torchrun import torchrun


def test_sharing_out_the_data_gives_the_draws_of_one_process(tmp_path: Path) -> None:
    """Decisions are equal, positions up to the order of summation."""
    done = torchrun(
        tmp_path,
        """
        import numpy as np
        import ggmc
        from tests.support.ranks import CASES, LENGTH, case

        ranks = ggmc.distributed.init()
        for name in CASES:
            target, kernel = case(name)
            trace = ggmc.sample(target, kernel, **LENGTH)
            np.savez(f"{name} {ranks.rank}.npz", rows=trace.positions, accepted=trace.stats["is_accepted"])
        """,
    )
    assert done.returncode == 0, done.stderr
    rejected = 0
    for name in CASES:
        one = ggmc.sample(*case(name), **LENGTH)
        first, second = (np.load(tmp_path / f"{name} {rank}.npz") for rank in range(2))
        assert np.array_equal(first["rows"], second["rows"]), name
        assert np.array_equal(first["accepted"], one.stats["is_accepted"]), name
        np.testing.assert_allclose(first["rows"], one.positions, rtol=1e-6, atol=1e-8, err_msg=name)
        rejected += (~first["accepted"]).sum()
    assert rejected > 20


def test_each_rank_reads_and_computes_its_own_part_only(tmp_path: Path) -> None:
    done = torchrun(
        tmp_path,
        """
        import json, torch, ggmc
        from pathlib import Path
        import ggmc.targets.data as data
        from ggmc.sampling.chains import Chains
        from ggmc.targets import traced
        from tests.support.logistic import log_likelihood, log_prior, examples

        traced.CALLS_FIRST = -1  # functions are called each time, to be counted
        ranks = ggmc.distributed.init()
        x, s = examples(400)
        counted = {"read": 0, "computed": 0}

        class Files(torch.utils.data.Dataset):
            def __len__(self):
                return len(x)
            def __getitem__(self, i):
                counted["read"] += 1
                return x[i], s[i]

        def likelihood(w, batch):
            counted["computed"] += len(batch[0])
            return log_likelihood(w, batch)

        data.IN_MEMORY = 100  # bytes: examples are read on demand
        target = ggmc.DataDensity(log_prior, likelihood, Files(), torch.zeros(3, dtype=torch.float64))
        kernel = ggmc.GGMC(0.02, steps=8, guide=ggmc.Minibatch(100))
        seen = []
        usual = Chains.advance
        def advance(self):
            before = dict(counted)
            info = usual(self)
            seen.append({name: counted[name] - before[name] for name in counted})
            return info
        Chains.advance = advance
        ggmc.sample(target, kernel, draws=3, warmup=0, chains=2, progress=False)
        Path(f"{ranks.rank}.json").write_text(json.dumps(seen[-1]))
        """,
    )
    assert done.returncode == 0, done.stderr
    counts = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    # A trajectory: eight kicks, each with half of a batch of 100 for each of two chains, and half of all 400 examples.
    assert [count["read"] for count in counts] == [8 * 50 * 2 + 200] * 2
    assert [count["computed"] for count in counts] == [8 * 50 + 200] * 2


@pytest.mark.slow
def test_ranks_with_chains_of_their_own(tmp_path: Path) -> None:
    done = torchrun(
        tmp_path,
        """
        import json
        from pathlib import Path
        import numpy as np
        import ggmc
        from tests.support.ranks import case

        ranks = ggmc.distributed.init(split="chains")
        target, _ = case("exact")
        trace = ggmc.sample(target, draws=400, warmup=300, chains=4, seed=3, progress=False)
        np.savez(f"{ranks.rank}.npz", rows=trace.positions)
        facts = {"warnings": trace.warnings, "kernels": trace.attributes["kernels"]}
        Path(f"{ranks.rank}.json").write_text(json.dumps(facts))
        try:
            ggmc.sample(target, draws=10, warmup=10, chains=3, progress=False)
        except ValueError as error:
            assert "chains=3 cannot be shared out over 2 ranks" in str(error)
        """,
    )
    assert done.returncode == 0, done.stderr
    rows, others = (np.load(tmp_path / f"{rank}.npz")["rows"] for rank in range(2))
    assert np.array_equal(rows, others)
    assert rows.shape == (4, 400, 3)
    assert len(np.unique(rows[:, -1, 0])) == 4  # no chain is another's copy
    facts = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert facts[0] == facts[1]
    steps = [kernel["step_size"] for kernel in facts[0]["kernels"]]
    assert len(set(steps)) == 2  # each has tuned its own
    reference = ggmc.sample(case("exact")[0], draws=2000, warmup=300, seed=9, progress=False)
    error = rows.std((0, 1)) / np.sqrt(400)  # effective draws are about a quarter of 1,600
    assert (np.abs(rows.mean((0, 1)) - reference.positions.mean((0, 1))) < 6 * error).all()


RESUMED = """
import sys
import ggmc
from tests.support.ranks import LENGTH, case

split, *todo = sys.argv[1:]
ranks = ggmc.distributed.init(split=split)
target, kernel = case("minibatches, tuned")
for task in todo:
    folder, draws = task.split()
    if draws.startswith("begin"):
        ggmc.sample(target, kernel, **LENGTH | {"draws": int(draws.split(":")[1])}, out=folder)
    else:
        trace = ggmc.resume(folder, target, int(draws), progress=False)
        assert trace.num_draws == int(draws), (ranks.rank, trace)
"""


@pytest.mark.parametrize("split", ["data", pytest.param("chains", marks=pytest.mark.slow)])
def test_two_ranks_resume_bit_for_bit(split: str, tmp_path: Path) -> None:
    for todo in (["whole begin:45", "stopped begin:20"], ["stopped 30", "stopped 45"]):
        done = torchrun(tmp_path, RESUMED, split, *todo)
        assert done.returncode == 0, done.stderr
    one, other = ggmc.load(tmp_path / "whole"), ggmc.load(tmp_path / "stopped")
    assert np.array_equal(np.asarray(one.positions), np.asarray(other.positions))
    assert not any("ranks" in warning for warning in other.warnings)
    target, _ = case("minibatches, tuned")
    if split == "chains":
        with pytest.raises(BadInput, match="2 ranks that share out the chains, and must go on with the same"):
            ggmc.resume(tmp_path / "stopped", target, 50)
    else:
        alone = ggmc.resume(tmp_path / "stopped", target, 50, progress=False)
        assert "with 2 ranks that share out the data and continued with one process" in "".join(alone.warnings)
        np.testing.assert_array_equal(np.asarray(alone.positions)[:, :45], np.asarray(one.positions))


def test_a_lost_rank_ends_the_run_with_a_message_and_a_checkpoint(tmp_path: Path) -> None:
    done = torchrun(
        tmp_path,
        """
        import os, sys
        import ggmc
        from ggmc.sampling.chains import Chains
        from ggmc.sampling.ranks import LostRank
        from tests.support.ranks import LENGTH, case

        ranks = ggmc.distributed.init()
        usual = Chains.advance
        def advance(self):
            if ranks.rank == 1 and self.drawn == 12:
                os._exit(7)
            return usual(self)
        Chains.advance = advance
        target, kernel = case("minibatches")
        try:
            ggmc.sample(target, kernel, **LENGTH, out=ggmc.RunFolder(sys.argv[1], checkpoint_every=0))
        except LostRank as error:
            print(error, error.trace.num_draws, *error.__notes__)
            raise
        """,
        tmp_path / "run",
    )
    assert done.returncode != 0
    assert "another rank of this run has stopped or does not answer" in done.stdout, done.stderr
    assert "ggmc.resume goes on from the run's last checkpoint" in done.stdout
    target, _ = case("minibatches")
    resumed = ggmc.resume(tmp_path / "run", target, progress=False)
    assert resumed.num_draws == LENGTH["draws"]
    whole = ggmc.sample(*case("minibatches"), **LENGTH)
    np.testing.assert_allclose(np.asarray(resumed.positions), whole.positions, rtol=1e-6, atol=1e-8)


def test_a_signal_to_one_rank_stops_both_after_the_same_trajectory(tmp_path: Path) -> None:
    done = torchrun(
        tmp_path,
        """
        import os, signal, sys
        import ggmc
        from ggmc.sampling.chains import Chains
        from tests.support.ranks import LENGTH, case

        ranks = ggmc.distributed.init()
        usual = Chains.advance
        def advance(self):
            if ranks.rank == 1 and self.drawn == 9:
                os.kill(os.getpid(), signal.SIGINT)
            return usual(self)
        Chains.advance = advance
        target, kernel = case("minibatches")
        trace = ggmc.sample(target, kernel, **LENGTH, out=sys.argv[1])
        assert trace.num_draws == 10, trace
        """,
        tmp_path / "run",
    )
    assert done.returncode == 0, done.stderr
    assert "Interrupted: returning the 10 draws per chain made so far" in done.stderr


def test_ranks_that_were_given_different_things_do_not_begin(tmp_path: Path) -> None:
    done = torchrun(
        tmp_path,
        """
        import torch
        import ggmc
        from tests.support.ranks import LENGTH, case, random_target

        ranks = ggmc.distributed.init()
        target, kernel = case("exact")
        torch.manual_seed(ranks.rank)
        for what, arguments, named in (
            ("seed, own_seed", (target, kernel), LENGTH | {"seed": ranks.rank}),
            ("draws", (target, kernel), LENGTH | {"draws": 10 + ranks.rank}),
            ("kernel", (target, ggmc.HMC(0.1 + ranks.rank, 2)), LENGTH),
            ("target or data", (random_target(), kernel), LENGTH),
        ):
            try:
                ggmc.sample(*arguments, **named)
            except ValueError as error:
                assert f"the ranks were not given the same {what}:" in str(error), error
            else:
                raise AssertionError("it began")
        """,
    )
    assert done.returncode == 0, done.stderr


def test_chains_that_come_apart_are_noticed(tmp_path: Path) -> None:
    done = torchrun(
        tmp_path,
        """
        import ggmc
        from ggmc.errors import GGMCError
        from ggmc.sampling.chains import Chains
        from tests.support.ranks import LENGTH, case

        ranks = ggmc.distributed.init()
        usual = Chains.advance
        def advance(self):
            info = usual(self)
            if ranks.rank == 1 and self.drawn == 5:
                self.state = self.state._replace(position=self.state.position * (1 + 1e-15))
            return info
        Chains.advance = advance
        try:
            ggmc.sample(*case("exact"), **LENGTH)
        except GGMCError as error:
            assert "the chains of the ranks have come apart" in str(error), error
        else:
            raise AssertionError("it went on")
        """,
    )
    assert done.returncode == 0, done.stderr


def test_networks_begin_alike_without_a_seed(tmp_path: Path) -> None:
    done = torchrun(
        tmp_path,
        """
        import torch
        import ggmc

        ranks = ggmc.distributed.init()
        net = torch.nn.Linear(3, 2)
        x, y = torch.randn(40, 3), torch.randint(2, (40,))
        posterior = ggmc.Posterior(net, "categorical", ggmc.priors.Gaussian(1.0), x, y)
        trace = ggmc.sample(posterior, ggmc.HMC(0.1, 3), draws=5, warmup=5, chains=2, progress=False)
        assert trace.predict(x[:4]).probabilities.shape == (4, 2)
        """,
    )
    assert done.returncode == 0, done.stderr


def test_a_target_without_data_says_that_nothing_is_shared_out(tmp_path: Path) -> None:
    done = torchrun(
        tmp_path,
        """
        import torch
        import ggmc

        ranks = ggmc.distributed.init()
        target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        ggmc.sample(target, ggmc.HMC(0.5, 3), draws=20, warmup=5, chains=2, progress=False)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has no data to share out, so every rank does the whole work") == 1


def test_without_torchrun_nothing_changes() -> None:
    ranks = ggmc.distributed.init()
    assert (ranks.number, ranks.first) == (1, True)
    with pytest.raises(BadInput, match="split must be one of"):
        ggmc.distributed.init(split="weights")
    target: Any = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
    assert ggmc.sample(target, ggmc.HMC(0.5, 3), draws=5, warmup=0, progress=False).num_draws == 5
