"""Small ways to be wrong with minibatches: each of these fails one test here and few others."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, constraints
from torch.utils.data import DataLoader, Dataset

import ggmc
from ggmc.dynamics import metropolis
from ggmc.dynamics.schedule import Along
from ggmc.dynamics.scheme import State
from ggmc.errors import BadInput, NotExact
from ggmc.guides import Field
from ggmc.guides.orders import check_reversible
from tests.targets.test_data_density import examples, log_likelihood, log_prior, logistic, rows

F64 = torch.float64


def stopping_decisions(bound: float, shift: float, temperature: float, stop: bool) -> Tensor:
    target = ggmc.DataDensity(
        log_prior, lambda w, b: log_likelihood(w, b) + shift, examples(400), torch.zeros(3, dtype=F64), bound=bound
    )
    kernel = ggmc.GGMC(0.1, 0.5, 4, guide=ggmc.Minibatch(100, "iid"), mass=[2.0, 1.0, 3.0], temperature=temperature)
    init, step = kernel.on(target, kernel.guide.bind(target), early_stop=stop)
    generator = torch.Generator().manual_seed(0)
    state = init(torch.zeros(2, 3, dtype=F64), generator)
    seen = []
    for _ in range(80):
        state, info = step(state, generator)
        seen.append(torch.cat([state.position.flatten(), state.potential, info.accepted.double()]))  # pyright: ignore
    return torch.stack(seen)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize(("bound", "shift"), [(0.0, 0.0), (2.0, 2.0)])
def test_the_early_stop_changes_nothing_whatever_bound_and_temperature(
    bound: float, shift: float, temperature: float
) -> None:
    one, other = (stopping_decisions(bound, shift, temperature, stop) for stop in (True, False))
    assert torch.equal(one, other)
    assert 0.02 < other[:, -2:].mean() < 0.98


@pytest.mark.parametrize("bound", [-1.0, 0.0, 2.0])
def test_a_stopped_sum_lies_between_limit_and_potential(bound: float) -> None:
    target = ggmc.DataDensity(
        log_prior, lambda w, b: log_likelihood(w, b) + bound, examples(400), torch.zeros(3, dtype=F64), bound=bound
    )
    position = rows(40)
    exact = target.potential(position)
    for below in (-50.0, -1.0, -1e-3, 1e-3, 1.0, 50.0):
        found = target.potential(position, exact + below)
        if below > 0:
            assert torch.equal(found, exact)
        else:
            assert (found > exact + below).all()
            assert (found <= exact + 1e-9 * exact.abs()).all()


def test_a_sum_stops_only_by_more_than_rounding() -> None:
    """Terms that are all exactly at the bound but the first: the least the sum can be is the sum itself."""
    data = torch.zeros(400, dtype=F64)
    data[0] = 1.0
    target = ggmc.DataDensity(lambda w: -(w**2).sum(), lambda w, b: -b * 1000 - 0 * w.sum(), data,
                              torch.zeros(1, dtype=F64), bound=0.0)  # fmt: skip
    looked = 0
    chunk = target._chunk

    def counting(*args: Any) -> Tensor:
        nonlocal looked
        looked += 1
        return chunk(*args)

    target._chunk = counting  # pyright: ignore[reportAttributeAccessIssue]
    position = torch.ones(1, 1, dtype=F64)
    target.potential(position, torch.tensor([1001.0 - 1e-10], dtype=F64))
    assert looked == 20


def test_every_path_to_the_potential_carries_the_jacobian() -> None:
    y = torch.randn(40, dtype=F64, generator=torch.Generator().manual_seed(0))
    start = {"mu": torch.zeros((), dtype=F64), "sigma": torch.ones((), dtype=F64)}

    def prior(p: Any) -> Tensor:
        return Normal(0, 2).log_prob(p["mu"]) - p["sigma"]

    def likelihood(p: Any, batch: Tensor) -> Tensor:
        return Normal(p["mu"], p["sigma"]).log_prob(batch)

    bounds = {"sigma": constraints.positive}
    whole = ggmc.Density(lambda p: prior(p) + likelihood(p, y).sum(), start, bounds)
    position = torch.randn(5, 2, dtype=F64, generator=torch.Generator().manual_seed(2)) / 2
    potential, gradient = whole.potential_and_gradient(position)
    for bound in (None, 10.0):
        target = ggmc.DataDensity(prior, likelihood, y, start, bounds, bound=bound)
        torch.testing.assert_close(target.potential(position), potential)
        torch.testing.assert_close(target.potential_and_gradient(position)[0], potential)
        for size in (7, 40):
            field: Any = ggmc.Minibatch(size).bind(target)
            each = [field(position, torch.full((5,), j))[0] for j in range(field.epoch)]
            torch.testing.assert_close(torch.stack(each).mean(0), gradient)


def test_sums_of_float32_terms_are_float64() -> None:
    x, s = examples(20_003, torch.float32)
    target = logistic(20_003, torch.float32)
    for w, found in zip(rows(dtype=torch.float32), target.potential(rows(dtype=torch.float32)), strict=True):
        terms = log_likelihood(w, (x, s))
        exact = math.fsum([-log_prior(w).item(), *(-terms.double()).tolist()])
        assert abs(found.item() - exact) < 1e-4


def test_a_term_above_its_bound_is_found_wherever_it_is() -> None:
    for place in (0, 50, 102):
        data = torch.zeros(103, dtype=F64)
        data[place] = 1.0
        target = ggmc.DataDensity(lambda w: -(w**2).sum(), lambda w, b: b * w.sum(), data,
                                  torch.zeros(1, dtype=F64), bound=0.0)  # fmt: skip
        with pytest.raises(BadInput, match="above its declared bound"):
            target.potential(torch.ones(1, 1, dtype=F64))


class Pairs(Dataset[Any]):
    """Examples of a form that only their own collate function understands."""

    def __init__(self, label_noise: float = 0.0, from_example: int = 0):
        self.x, self.s = examples()
        self.label_noise, self.from_example = label_noise, from_example

    def __len__(self) -> int:
        return 103

    def __getitem__(self, i: int) -> Any:
        noise = self.label_noise * torch.randn((), dtype=F64) if i >= self.from_example else 0.0
        return self.x[i], self.s[i] + noise


@pytest.mark.parametrize("memory", [1000, 2**31])
def test_a_loaders_collate_function_is_used(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    monkeypatch.setattr("ggmc.data.IN_MEMORY", memory)

    def halved(pairs: list[Any]) -> Any:
        return torch.stack([x for x, _ in pairs]) / 2, torch.stack([s for _, s in pairs])

    target = ggmc.DataDensity(
        log_prior, log_likelihood, DataLoader(Pairs(), collate_fn=halved), torch.zeros(3, dtype=F64)
    )
    x, s = examples()
    expected = torch.stack([-(log_prior(w) + log_likelihood(w, (x / 2, s)).sum()) for w in rows()])
    torch.testing.assert_close(target.potential(rows()), expected)


def test_batches_read_on_demand_are_those_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = torch.tensor([2, 0, 5, 2])
    kept = ggmc.Minibatch(20).bind(logistic())(rows(), entry)[0]
    monkeypatch.setattr("ggmc.data.IN_MEMORY", 1000)
    target = ggmc.DataDensity(log_prior, log_likelihood, Pairs(), torch.zeros(3, dtype=F64))
    torch.testing.assert_close(ggmc.Minibatch(20).bind(target)(rows(), entry)[0], kept)


@pytest.mark.parametrize("dataset", [Pairs(0.1), Pairs(0.1, from_example=50)])
def test_randomness_in_labels_and_in_some_examples_only_is_seen(dataset: Any) -> None:
    target = ggmc.DataDensity(log_prior, log_likelihood, dataset, torch.zeros(3, dtype=F64))
    with pytest.raises(NotExact, match="each time it is read"):
        ggmc.HMC(0.1, 3).bind(target)


@pytest.mark.parametrize("what", ["gradient_at_anchor", "_gradients", "_curvatures"])
def test_nothing_known_at_the_anchor_may_change(what: str) -> None:
    target = logistic()
    kernel = ggmc.GGMC(0.1, guide=ggmc.ControlVariate(10, curvature="dense", anchor=torch.zeros(3, dtype=F64)), steps=2)
    field: Any = kernel.guide.bind(target)
    init, step = kernel.on(target, field)
    generator = torch.Generator().manual_seed(0)
    state = init(rows(), generator)
    getattr(field, what).mul_(1.1)
    with pytest.raises(NotExact, match="was changed after the kernel was bound"):
        step(state, generator)


def test_a_diagonal_curvature_is_exact_where_the_hessian_is_diagonal() -> None:
    x = torch.eye(3, dtype=F64).repeat(34, 1) * torch.rand(
        102, 1, dtype=F64, generator=torch.Generator().manual_seed(0)
    )
    s = torch.sign(torch.randn(102, dtype=F64, generator=torch.Generator().manual_seed(1)))
    target = ggmc.DataDensity(log_prior, log_likelihood, (x, s), torch.zeros(3, dtype=F64))
    anchor = torch.tensor([0.3, -0.2, 0.1], dtype=F64)
    fields: list[Any] = [
        ggmc.ControlVariate(10, "iid", curvature, anchor).bind(target) for curvature in ("diagonal", "dense")
    ]
    entry = torch.tensor([0, 3, 5, 1])
    torch.testing.assert_close(fields[0](rows(), entry)[0], fields[1](rows(), entry)[0])


def test_a_share_of_the_kicks_is_scaled_up() -> None:
    """A guide that is off by a constant: the noise error of a third of the kicks, times three, is that of all."""
    from ggmc.dynamics.comparison import Comparison

    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))
    found = []
    for share in (1.0, 0.34):
        look = Comparison(target, 12, share, torch.Generator().manual_seed(0))
        for _ in range(12):
            look(0.1, torch.zeros(2, 1, dtype=F64), torch.ones(2, 1, dtype=F64), torch.ones(2, 1, dtype=F64))
        found.append(look.by_noise)
    torch.testing.assert_close(found[0], torch.full((2,), -1.2, dtype=F64))
    torch.testing.assert_close(found[1], found[0])


def test_a_divergence_between_looks_makes_the_stretch_impossible_and_its_potential_right() -> None:
    def potential(x: Tensor) -> Tensor:
        return torch.where(x[:, 0] > 5, torch.inf, x[:, 0])

    def at(x: float, known: float | None = None, owed: float | None = None) -> State:
        row = torch.full((1, 1), x, dtype=F64)
        return State(row, row, None if known is None else torch.tensor([known], dtype=F64), None,
                     None if owed is None else torch.tensor([owed], dtype=F64))  # fmt: skip

    no_work = torch.zeros(1, dtype=F64)
    # A step out of the support at the look: the chain is at 2, whose potential is 2, not that of the last look.
    after, info = metropolis.watch(at(2.0, known=1.0, owed=0.5), at(9.0), no_work, 1, 1.0, potential)
    assert after.position.item() == 2.0
    assert after.potential is not None
    assert after.potential.item() == 2.0
    assert info.log_accept.item() == -math.inf
    # A divergence while nobody looks is remembered until somebody does.
    after, info = metropolis.watch(at(2.0, known=2.0), at(math.nan), no_work, 1, 1.0, None)
    assert info.diverging.item()
    after, info = metropolis.watch(after, at(3.0), no_work, 1, 1.0, potential)
    assert info.log_accept.item() == -math.inf
    assert after.owed is None
    assert after.potential is not None
    assert after.potential.item() == 3.0


def test_watching_calls_a_huge_energy_error_divergent() -> None:
    row = torch.zeros(2, 1, dtype=F64)
    start = State(row, row, torch.zeros(2, dtype=F64), None)
    end = State(row, row, torch.tensor([400.0, 600.0], dtype=F64), None)
    _, info = metropolis.watch(start, end, torch.zeros(2, dtype=F64), 1, 0.5, lambda p: p[:, 0])
    assert info.diverging.tolist() == [False, True]


def test_a_schedule_only_a_little_lopsided_is_refused() -> None:
    with pytest.raises(NotExact, match="must read the same backwards"):
        ggmc.GGMC(0.1, along=Along(lambda x: 1.0 + 0.01 * x))


def every_second(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    """Neighbours are independent, but every entry is the successor of the last but one, half of the time."""
    tape = torch.randint(batches, (entries,), generator=generator)
    for i in range(2, entries):
        if torch.rand((), generator=generator) < 0.5:
            tape[i] = (tape[i - 2] + 1) % batches
    return tape


def test_a_direction_seen_only_in_every_second_entry_is_found_out() -> None:
    with pytest.raises(NotExact, match="read backwards"):
        check_reversible(ggmc.Tape(every_second, reversible=True), 7, 4)


def reversible_up_to_four(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    tape = torch.randint(batches, (entries,), generator=generator)
    return tape if entries <= 4 else tape.sort().values


def test_a_tape_is_checked_at_the_longest_trajectory() -> None:
    from tests.support.invariance import noisy_quartic

    guide = ggmc.Minibatch(3, ggmc.Tape(reversible_up_to_four, reversible=True))
    with pytest.raises(NotExact, match="standard errors"):
        ggmc.GGMC(0.1, guide=guide, steps=(2, 7), scheme="O(ABA)O").bind(noisy_quartic().target)


def test_without_the_test_a_bound_does_not_change_the_acceptance_rate() -> None:
    kernel = ggmc.GGMC(0.2, guide=ggmc.Minibatch(50, "iid"), steps=4, adjust=False)
    one, other = (
        ggmc.sample(logistic(bound=bound), kernel, draws=20, warmup=0, progress=False).stats["acceptance_rate"]
        for bound in (0.0, None)
    )
    assert np.allclose(one, other)
    assert (one < 1).any()


def test_a_run_starts_where_the_guide_says() -> None:
    from ggmc.sampling.sample import Chains

    anchor = torch.full((3,), 30.0, dtype=F64)
    kernel = ggmc.GGMC(0.1, guide=ggmc.ControlVariate(10, anchor=anchor))
    assert torch.equal(Chains(logistic(), kernel, 4, 0, 0).state.position, anchor.expand(4, 3))


def test_a_run_starts_with_momenta_of_its_mass() -> None:
    from ggmc.sampling.sample import Chains

    kernel = ggmc.GGMC(0.1, mass=[1e-4, 1.0, 1e4], temperature=0.5)
    momentum = Chains(logistic(), kernel, 2000, 0, 0).state.momentum
    torch.testing.assert_close(momentum.var(0), torch.tensor([0.5e-4, 0.5, 0.5e4], dtype=F64), rtol=0.2, atol=0)


@pytest.mark.parametrize("kernel", [ggmc.GGMC(0.2, adjust=False), ggmc.SGLD(0.2)], ids=lambda k: type(k).__name__)
def test_log_alpha_is_told_at_the_temperature_of_the_trajectory(kernel: Any) -> None:
    from ggmc.dynamics.schedule import Over

    init, step = replace(kernel, over=Over(2, temperature=lambda x: 0.25)).bind(logistic())
    generator = torch.Generator().manual_seed(0)
    _, info = step(init(rows(), generator), generator)
    torch.testing.assert_close(info.log_accept, -info.energy_error / 0.25)


def test_while_tuning_no_sum_stops_early(monkeypatch: pytest.MonkeyPatch) -> None:
    target = logistic(bound=0.0)
    below = target.potential_below

    def watched(position: Tensor, limit: Tensor | None) -> Tensor:
        assert limit is None, "log α of a stopped sum is not log α"
        return below(position, limit)

    from ggmc.sampling.sample import Chains

    run = Chains(target, ggmc.GGMC(guide=ggmc.Minibatch(50, "iid"), steps=4), 4, 60, 0)
    monkeypatch.setattr(target, "potential_below", watched)
    for _ in range(60):
        run.advance()


def cut_off(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    passes = [torch.randperm(batches, generator=generator) for _ in range(entries // batches + 1)]
    return torch.cat(passes)[:entries]


def test_every_length_of_a_range_is_checked() -> None:
    from tests.support.invariance import noisy_quartic

    guide = ggmc.Minibatch(3, ggmc.Tape(cut_off, reversible=True))
    with pytest.raises(NotExact, match="standard errors"):
        ggmc.GGMC(0.1, guide=guide, steps=(5, 8), scheme="O(ABA)O").bind(noisy_quartic().target)


def test_a_tape_is_checked_at_the_length_that_warm_up_found() -> None:
    from tests.support.invariance import noisy_quartic

    guide = ggmc.ControlVariate(3, ggmc.Tape(cut_off, reversible=True), anchor=torch.zeros(1, dtype=F64))
    with pytest.raises(NotExact, match="standard errors"):
        ggmc.sample(
            noisy_quartic().target, ggmc.GGMC(guide=guide, scheme="O(ABA)O"), draws=5, warmup=60, progress=False
        )


def test_a_divergence_at_a_thinned_look_reports_the_potential_of_where_the_chain_is() -> None:
    row = torch.full((1, 1), 2.0, dtype=F64)
    start = State(row, row, torch.tensor([1.0], dtype=F64), None, torch.tensor([0.5], dtype=F64))
    end = State(row * math.nan, row, torch.tensor([math.nan], dtype=F64), None)  # an exact guide's end brings its U
    after, _ = metropolis.watch(start, end, torch.zeros(1, dtype=F64), 1, 1.0, lambda p: p[:, 0])
    assert after.potential is not None
    assert after.potential.item() == 2.0


@pytest.mark.parametrize("kicks", [11, 12])
def test_mirrored_kicks_are_looked_at_both_or_neither(kicks: int) -> None:
    """Noise that cancels on the way back adds up to nothing, whichever kicks are looked at."""
    from ggmc.dynamics.comparison import Comparison

    target = ggmc.Density(lambda x: -1e-300 * x.sum(), torch.zeros(1, dtype=F64))
    one = torch.ones(2, 1, dtype=F64)
    for seed in range(5):
        look = Comparison(target, kicks, 0.34, torch.Generator().manual_seed(seed))
        for kick in range(kicks):
            look(0.1, one, (kick - (kicks - 1) / 2) * one, one)
        assert look.by_noise is not None
        torch.testing.assert_close(look.by_noise, torch.zeros(2, dtype=F64))


def test_either_way_has_a_fair_coin_and_every_chain_its_own_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggmc.dynamics import either_way

    chains = 200_000
    forwards: Any
    backwards: Any
    forwards, backwards = object(), object()
    share: dict[int, int] = {}

    def told(plan: Any, state: State, dynamics: Any, field: Any, tape: Tensor, noise: Any) -> tuple[State, Tensor]:
        share[id(plan)] = len(state.position)
        assert torch.equal(tape[1].double(), state.position[:, 0])  # row by row its own column
        return state, tape[1].double()

    monkeypatch.setattr(either_way, "run", told)
    generator = torch.Generator().manual_seed(0)
    tape = torch.arange(2 * chains).view(2, chains)
    position = tape[1].double()[:, None]
    state = State(position, position, None, None)
    anything: Any = None
    end, work = either_way.run_either_way((forwards, backwards), state, anything, Field(), tape, generator)
    assert torch.equal(end.position, position)
    assert torch.equal(work, position[:, 0])
    assert abs(share[id(forwards)] / chains - 0.5) < 5 * 0.5 / chains**0.5
