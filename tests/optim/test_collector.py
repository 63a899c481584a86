"""The draws of a training loop as a trace, in memory and on disk, and loops that go on bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import HalfNormal

import ggmc
from ggmc import optim
from ggmc.errors import BadInput
from ggmc.sampling.checkpoint import Checkpoints
from tests.support.collecting import NUM_DATA, Loop, X, Y, posterior


def test_draws_become_a_trace_that_predicts_scores_and_diagnoses() -> None:
    loop = Loop()
    trace = loop.run(60)
    assert (trace.num_chains, trace.num_draws) == (1, 60)
    assert torch.equal(torch.tensor(trace["weight"][0, -1]), loop.net.weight.detach())
    assert trace.predict(X[:5]).mean.shape == (5,)
    assert trace.score(X, Y)["rmse"] < 2
    assert {"lp", "log_accept", "is_accepted", "kinetic_temperature"} <= set(trace.to_arviz().sample_stats)
    assert trace.kernel.adjust
    # lp is minus the optimiser's potential: that of the posterior, up to a constant.
    rows = trace.rows()[0]
    difference = loop.posterior.potential(rows).numpy() + trace.stats["lp"][0]
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9)
    np.testing.assert_allclose(trace.stats["work"][0], loop.works, rtol=1e-12)


def test_a_rejected_trajectory_repeats_the_last_draw() -> None:
    loop = Loop(lr=40.0)
    trace = loop.run(40)
    accepted, rows = trace.stats["is_accepted"][0], trace.positions[0]
    assert not accepted.all()
    assert [(rows[i] == rows[i - 1]).all() for i in range(1, 40)] == list(~accepted[1:])


def test_draws_are_those_of_the_posterior() -> None:
    """Of a linear model with known noise, whose posterior is normal."""
    trace = Loop(lr=10.0, seed=1).run(1500)
    design = torch.cat([X, torch.ones(NUM_DATA, 1)], 1).double()
    precision = design.T @ design + torch.eye(design.shape[1])
    mean = torch.linalg.solve(precision, design.T @ Y.double())[:, 0]
    draws = np.concatenate([trace["weight"][0, :, 0], trace["bias"][0]], 1)
    deviation = precision.inverse().diagonal().sqrt().numpy()
    ess = 300  # at the least
    assert (np.abs(draws.mean(0) - mean.numpy()) < 5 * deviation / np.sqrt(ess)).all()
    np.testing.assert_allclose(draws.std(0), deviation, rtol=0.2)


def test_untested_draws_say_so() -> None:
    loop = Loop(reject=False, lr=40.0)
    trace = loop.run(30)
    assert not trace.kernel.adjust
    assert any("Without the Metropolis test the draws are biased" in warning for warning in trace.warnings)


def test_draws_without_potentials_say_that_nothing_is_known() -> None:
    loop = Loop()
    draws = optim.Collector(loop.net, loop.optimiser)
    for _ in range(12):
        loop.gradient(slice(None))
        loop.optimiser.step()
        draws.add()
    trace = draws.trace()
    assert any("no trajectory was given its potential" in warning for warning in trace.warnings)
    assert np.isnan(trace.stats["log_accept"]).all()
    assert trace["weight"].shape == (1, 12, 1, 3)
    assert trace.summary(var_names=["bias"]).shape[0] == 1
    with pytest.raises(BadInput, match=r"predictions need a target such as ggmc\.Posterior"):
        trace.predict(X)


def test_an_sghmc_loop_reports_minus_infinity() -> None:
    loop = Loop()
    optimiser = optim.SGHMC(loop.net, lr=1.0, num_data=NUM_DATA)
    draws = optim.Collector(loop.net, optimiser)
    for _ in range(10):
        optimiser.begin_trajectory()
        loop.gradient(slice(None))
        optimiser.step()
        draws.add(optimiser.end_trajectory(loop.total_loss))
    trace = draws.trace()
    assert np.isneginf(trace.stats["log_accept"]).all()
    assert any("Trajectories have no valid test" in warning for warning in trace.warnings)


# On disk


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O", "OBABO"])
def test_a_loop_goes_on_bit_for_bit(scheme: str, tmp_path: Path) -> None:
    whole, resumed = Loop(scheme=scheme).run(30), None
    for seed, stop in enumerate((7, 8, 19, 30)):  # each a program of its own, that shares nothing but the folder
        parts = Loop(scheme=scheme, out=ggmc.RunFolder(tmp_path / "run", checkpoint_every=0), seed=seed)
        resumed = parts.run(stop)
        parts.draws.close()
    assert resumed is not None
    assert np.array_equal(np.asarray(resumed.positions), whole.positions)
    for name in whole.stats:
        np.testing.assert_array_equal(resumed.stats[name], whole.stats[name], err_msg=name)
    again = ggmc.load(tmp_path / "run", posterior())
    assert again.num_draws == 30
    assert again.kernel.adjust
    assert again.kernel.name.startswith("ggmc.optim.GGMC")
    assert again.predict(X[:3]).mean.shape == (3,)
    again.to_arviz()


def test_what_came_after_the_last_checkpoint_is_made_again(tmp_path: Path) -> None:
    whole = Loop().run(12)
    first = Loop(out=ggmc.RunFolder(tmp_path / "run", checkpoint_every=1000))
    first.advance(9)
    first.draws.checkpoint()
    first.advance(3)  # and the program dies
    first.draws.close()
    again = Loop(out=tmp_path / "run", seed=5)
    assert again.draws.done == 9
    np.testing.assert_array_equal(np.asarray(again.run(12).positions), whole.positions)


def test_a_program_that_dies_between_two_draws_goes_on_after_the_last_one(tmp_path: Path) -> None:
    whole = Loop().run(9)
    for seed, stop in enumerate((3, 6)):  # neither asks for a trace, which would write a checkpoint of its own
        dies = Loop(out=ggmc.RunFolder(tmp_path / "run", checkpoint_every=0), seed=seed)
        dies.advance(stop - dies.draws.done)
        dies.draws.close()
    last = Loop(out=tmp_path / "run", seed=2)
    assert last.draws.done == 6
    np.testing.assert_array_equal(np.asarray(last.run(9).positions), whole.positions)


def test_thinned_draws_go_on_too(tmp_path: Path) -> None:
    whole, trace = Loop().run(20), None
    folder = ggmc.RunFolder(tmp_path / "run", checkpoint_every=0, thin=3)
    for seed, stop in enumerate((4, 20)):
        parts = Loop(out=folder, seed=seed)
        trace = parts.run(stop)
        parts.draws.close()
    assert trace is not None
    np.testing.assert_array_equal(np.asarray(trace.positions), whole.positions[:, 2::3])


def test_predictions_only_go_on_as_predictions(tmp_path: Path) -> None:
    whole, trace = Loop().run(20), None
    for seed, stop in enumerate((8, 20)):
        parts = Loop(out=ggmc.RunFolder(tmp_path / "run", predict_at=X[:4]), seed=seed)
        trace = parts.run(stop)
        parts.draws.close()
    assert trace is not None
    expected = posterior().prediction_features(whole.stacked_rows(), X[:4]).numpy()
    np.testing.assert_allclose(trace["prediction"][0], expected, rtol=1e-12)
    with pytest.raises(BadInput, match="keeps predictions only: give its inputs, predict_at, again"):
        Loop(out=tmp_path / "run")
    Loop(out=tmp_path / "draws").run(5)
    with pytest.raises(BadInput, match="keeps draws, and not predictions only: leave predict_at out"):
        Loop(out=ggmc.RunFolder(tmp_path / "draws", predict_at=X[:4]))
    assert ggmc.load(tmp_path / "draws").num_draws == 5


def test_attributes_of_the_folder_are_kept(tmp_path: Path) -> None:
    first = Loop(out=ggmc.RunFolder(tmp_path / "run", attributes={"net": "linear"}))
    assert first.run(5).attributes["net"] == "linear"
    first.draws.close()
    again = Loop(out=tmp_path / "run", seed=1)  # a program that does not say it again
    assert again.run(10).attributes["net"] == "linear"
    assert ggmc.load(tmp_path / "run").attributes["net"] == "linear"


def test_untested_draws_are_remembered_by_the_programs_after(tmp_path: Path) -> None:
    for reject, stop in ((False, 4), (True, 8), (True, 12)):
        loop = Loop(reject=reject, out=tmp_path / "run")
        assert not loop.run(stop).kernel.adjust
        loop.draws.close()
    assert not ggmc.load(tmp_path / "run").kernel.adjust


def test_remarks_are_remembered_by_the_programs_after(tmp_path: Path) -> None:
    folder = ggmc.RunFolder(tmp_path / "run", checkpoint_every=0)
    loop = Loop(out=folder)
    loop.run(5)
    loop.draws.close()
    newest = Checkpoints(tmp_path / "run", 0).files()[-1]
    newest.write_bytes(newest.read_bytes()[:-20])
    for stop in (8, 12, 16):
        loop = Loop(out=folder)
        assert any(newest.name in remark for remark in loop.run(stop).remarks)
        loop.draws.close()
        assert any(newest.name in warning for warning in ggmc.load(tmp_path / "run").warnings)


def test_folders_of_other_runs_are_refused(tmp_path: Path) -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
    ggmc.sample(target, ggmc.HMC(0.5, 2), 10, 0, chains=1, out=tmp_path / "sampled", progress=False)
    with pytest.raises(BadInput, match=r"holds a run of ggmc\.sample, not of ggmc\.optim\.GGMC"):
        Loop(out=tmp_path / "sampled")
    loop = Loop(out=tmp_path / "loop")
    loop.run(5)
    with pytest.raises(BadInput, match="another run is writing to"):
        Loop(out=tmp_path / "loop")
    loop.draws.close()
    with pytest.raises(BadInput, match=r"not of ggmc\.optim\.GGMC with scheme OBABO"):
        Loop(out=tmp_path / "loop", scheme="OBABO")
    with pytest.raises(BadInput, match=r"begun with also=\['batches'\], got \[\]"):
        Loop(out=tmp_path / "loop", also={})
    other = nn.Linear(4, 1).double()
    with pytest.raises(BadInput, match="but the module has"):
        optim.Collector(other, optim.GGMC(other, 1e-2, num_data=10), out=tmp_path / "loop")
    assert ggmc.load(tmp_path / "loop").num_draws == 5
    with pytest.raises(BadInput, match="is a training loop of"):
        ggmc.resume(tmp_path / "loop", posterior())


# Refusals


def test_what_cannot_be_collected_is_refused() -> None:
    loop = Loop()
    with pytest.raises(BadInput, match=r"must be a sampler of ggmc\.optim, got SGD"):
        optim.Collector(loop.net, torch.optim.SGD(loop.net.parameters(), 0.1))  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadInput, match="no draw was added yet"):
        loop.draws.trace()
    with pytest.raises(BadInput, match="there is no folder"):
        loop.draws.checkpoint()
    loop.optimiser.begin_trajectory()
    with pytest.raises(BadInput, match="add the draw after end_trajectory"):
        loop.draws.add()
    with pytest.raises(BadInput, match="of which the module has 0"):
        optim.Collector(nn.Linear(3, 1), loop.optimiser)
    unknown: Any = ggmc.Posterior(loop.net, ggmc.likelihoods.Gaussian(HalfNormal(1.0)), ggmc.priors.Gaussian(1.0), X, Y)
    with pytest.raises(BadInput, match="one of other unknowns than the optimiser samples: noise"):
        optim.Collector(loop.net, loop.optimiser, unknown)


def test_schedulers_and_frozen_parameters(tmp_path: Path) -> None:
    def go(stops: list[int], folder: Path | None) -> np.ndarray:
        trace: Any = None
        for stop in stops:
            torch.manual_seed(stop)
            net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
            torch.manual_seed(0)
            for parameter in net.parameters():
                nn.init.normal_(parameter)
            net[0].requires_grad_(False)
            optimiser = optim.HMC(net, lr=0.1, num_data=NUM_DATA, seed=0)
            timer = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)
            out = None if folder is None else ggmc.RunFolder(folder, checkpoint_every=0)
            draws = optim.Collector(net, optimiser, out=out, also={"timer": timer})
            for _ in range(draws.done, stop):
                optimiser.begin_trajectory()
                for _ in range(3):
                    optimiser.zero_grad()
                    ((net(X) - Y) ** 2).mean().backward()
                    optimiser.step()
                draws.add(optimiser.end_trajectory(lambda net=net: NUM_DATA * ((net(X) - Y) ** 2).mean(), reject=True))
                timer.step()
            trace = draws.trace()
            draws.close()
        assert list(trace.target.layout.shapes) == ["2.weight", "2.bias"]
        return np.asarray(trace.positions)

    np.testing.assert_array_equal(go([4, 9], tmp_path / "run"), go([9], None))


@pytest.mark.parametrize("reject", [True, False])
def test_what_is_stored_of_a_draw_is_what_its_trajectory_told(reject: bool) -> None:
    loop = Loop(lr=20.0, reject=reject)
    told: list[dict[str, float]] = []
    add = loop.draws.add

    def noted(info: Any) -> None:
        momentum, potential = loop.optimiser.momenta, loop.optimiser.potential
        assert potential is not None
        told.append(
            {
                "lp": -potential,
                "acceptance_rate": min(1.0, info.log_accept.exp().item()),
                "log_accept": info.log_accept.item(),
                "is_accepted": info.accepted.item(),
                "diverging": info.diverging.item(),
                "energy_error": info.energy_error.item(),
                "n_steps": 6,
                "step_size": (0.2 / NUM_DATA) ** 0.5,
                "kinetic_temperature": (momentum @ momentum / len(momentum)).item(),
                "tested": reject,
            }
        )
        add(info)

    loop.draws.add = noted  # pyright: ignore[reportAttributeAccessIssue]
    trace = loop.run(20)
    assert 0 < np.mean([row["acceptance_rate"] for row in told]) < 1
    for name in told[0]:
        np.testing.assert_allclose(trace.stats[name][0], [row[name] for row in told], rtol=1e-12, err_msg=name)


def test_thinned_statistics_belong_to_their_draws(tmp_path: Path) -> None:
    whole = Loop(lr=20.0).run(20)
    thinned = Loop(lr=20.0, out=ggmc.RunFolder(tmp_path / "run", thin=3)).run(20)
    assert len(np.unique(whole.stats["log_accept"])) == 20
    for name in whole.stats:
        np.testing.assert_array_equal(np.asarray(thinned.stats[name]), whole.stats[name][:, 2::3], err_msg=name)
