"""What can be sampled, and parameter groups."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ggmc import optim
from ggmc.errors import BadInput
from tests.support.training import F64, N, compute_gradient, ggmc, halves, net, steps, total, values


def test_what_cannot_be_sampled_is_refused() -> None:
    one = nn.Parameter(torch.zeros(2))
    for given, reason in [
        (one, "put it in a list"),
        ([one, torch.zeros(2, dtype=torch.int64)], r"parameter 1 has dtype torch.int64"),
        ([one, nn.Parameter(torch.zeros(2, dtype=F64))], "parameter 1 is torch.float64 on cpu, but the first is"),
        ([nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))], "too coarse to retrace"),
        ([{"params": [one]}, one], "put every parameter in a group"),
        ([{"lr": 0.1}], r'group 0 has no "params", only .*lr'),
        ([{"params": [one, 3]}], "parameter 1 of group 0 is a int: give a module, parameters or groups"),
        ([{"params": [one]}, {"params": [nn.Parameter(torch.zeros(2, dtype=F64))]}], "parameter 1 is torch.float64"),
        ([{"params": [torch.zeros(2)]}], "nothing to sample"),
        ([torch.zeros(2)], "nothing to sample"),
        ([one * 2], "computed from others"),
        ([one, nn.Parameter(one.data)], "share their memory"),
        (nn.LazyLinear(2), "run a batch through the module first"),
    ]:
        with pytest.raises(BadInput, match=reason):
            ggmc(given)
    for changes, reason in [
        ({"lr": -1.0}, "lr must be zero or a positive number, got -1.0"),
        ({"momentum": 1.5}, "momentum must lie between 0 and 1, got 1.5"),
        ({"num_data": 0}, "num_data must be a whole number of at least 1, got 0"),
        ({"scheme": "BAOAB"}, r"one of OABAO, O\(ABA\)O, OBABO, got 'BAOAB'"),
    ]:
        with pytest.raises(BadInput, match=reason):
            ggmc([one], **changes)
    optimiser = ggmc([one])
    with pytest.raises(BadInput, match="no parameter has a gradient"):
        optimiser.step()
    with pytest.raises(BadInput, match="another optimiser"):
        optimiser.load_state_dict(torch.optim.SGD([one], lr=0.1).state_dict())
    with pytest.raises(BadInput, match=r"GGMC with scheme O\(ABA\)O, not of GGMC with scheme OABAO"):
        optimiser.load_state_dict(ggmc([one], scheme="O(ABA)O").state_dict())


# Groups.


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O", "OBABO", "HMC", "SGHMC", "SGLD"])
def test_groups_with_equal_rates_are_the_ungrouped_chain_bit_for_bit(scheme: str) -> None:
    def run(grouped: bool) -> list[Tensor]:
        module = net()
        given: Any = halves(module, {}, {"lr": 0.01}) if grouped else module
        kinds: dict[str, Any] = {"HMC": optim.HMC, "SGHMC": optim.SGHMC, "SGLD": optim.SGLD}
        if scheme in kinds:
            optimiser = kinds[scheme](given, lr=0.01, num_data=N, weight_decay=0.1, seed=0)
        else:
            optimiser = ggmc(given, scheme=scheme, weight_decay=0.1)
        if scheme != "HMC":
            steps(module, optimiser, 3)
        found = []
        if scheme != "SGLD":
            optimiser.begin_trajectory()
            steps(module, optimiser, 4)
            compute_gradient(module, optimiser, 4)
            found = [optimiser.end_trajectory(total(module), reject=scheme != "SGHMC").log_accept]
        return [values(module), optimiser.momenta.clone(), *found]

    for one, other in zip(run(False), run(True), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("kind", "factor"), [(optim.GGMC, 0.95), (optim.SGHMC, 1.0), (optim.SGLD, 0.5)], ids=["GGMC", "SGHMC", "SGLD"]
)
def test_groups_at_zero_temperature_are_sgd_with_the_same_groups(kind: Any, factor: float) -> None:
    momentum: Any = {} if kind is optim.SGLD else {"momentum": 0.9}
    own = [{"lr": 0.005, "weight_decay": 0.2}, {"lr": 0.02, "weight_decay": 0.1}]
    ours, theirs = net(), net()
    optimiser = kind(halves(ours, *own), lr=1.0, num_data=N, temperature=0.0, **momentum)
    scaled = [{**settings, "lr": settings["lr"] * factor} for settings in own]
    sgd = torch.optim.SGD(halves(theirs, *scaled), lr=1.0, **momentum)
    for k in range(100):
        steps(ours, optimiser, 1, k)
        steps(theirs, sgd, 1, k)
    assert torch.allclose(values(ours), values(theirs), rtol=0, atol=1e-12)
    assert (values(ours) - values(net())).abs().max() > 0.05


def test_a_group_of_rate_zero_stays_where_it_is() -> None:
    module = net()
    steps(module, ggmc(halves(module, {"lr": 0.0}, {})), 3)
    assert torch.equal(values(module)[:16], values(net())[:16])
    assert (values(module)[16:] != values(net())[16:]).all()


def test_a_scheduler_scales_all_groups_alike() -> None:
    module = net()
    optimiser = ggmc(halves(module, {"lr": 0.01}, {"lr": 0.04}))
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 1, gamma=0.3)
    steps(module, optimiser, 1)
    schedule.step()
    settings = optimiser._settings()
    assert settings.ratios == pytest.approx((0.5, 1.0))
    assert settings.rates == pytest.approx((0.003, 0.012))


@pytest.mark.parametrize(("name", "value"), [("momentum", 0.5), ("temperature", 0.5), ("num_data", 7)])
def test_what_all_groups_share_may_not_differ(name: str, value: float) -> None:
    module = net()
    with pytest.raises(BadInput, match=f"{name} is .* in group 0 but {value} in group 1: .* give all groups the same"):
        ggmc(halves(module, {}, {name: value}))
    optimiser = ggmc(halves(module, {}, {}))
    optimiser.param_groups[1][name] = value
    with pytest.raises(BadInput, match="Groups may differ in lr and weight_decay"):
        steps(module, optimiser, 1)


def test_a_parameter_in_two_groups_is_refused() -> None:
    module = net()
    with pytest.raises(ValueError, match="more than one parameter group"):
        ggmc([{"params": module[0].weight}, {"params": list(module.parameters())}])


def test_the_prior_of_groups_is_in_the_potential() -> None:
    module = net()
    optimiser = ggmc(halves(module, {"weight_decay": 0.1}, {"weight_decay": 0.3}))
    expected = (0.1 * values(module)[:16].square().sum() + 0.3 * values(module)[16:].square().sum()) * N / 2
    optimiser.begin_trajectory(0.0)
    assert optimiser._trajectory.potential.item() == pytest.approx(expected.item())  # pyright: ignore


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O", "OBABO"])
def test_a_group_added_later_is_sampled_too(scheme: str) -> None:
    module = net()
    optimiser = ggmc(module[0], scheme=scheme)
    module[2].requires_grad_(False)
    steps(module, optimiser, 3)
    optimiser.rest()
    before, momenta = values(module), optimiser.momenta.clone()
    module[2].requires_grad_(True)
    optimiser.add_param_group({"params": module[2].parameters(), "lr": 0.04, "weight_decay": 0.3})
    assert torch.equal(values(module), before)
    assert torch.equal(optimiser.momenta[:16], momenta)
    assert (optimiser.momenta[16:] != 0).all()
    assert [group["lr"] for group in optimiser.param_groups] == [0.01, 0.04]
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.0, 0.3]
    steps(module, optimiser, 2)
    assert (values(module)[16:] != before[16:]).all()
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    compute_gradient(module, optimiser, 2)
    assert math.isfinite(optimiser.end_trajectory(total(module), reject=True).log_accept)


def test_a_group_cannot_be_added_on_the_way_or_with_settings_that_do_not_fit() -> None:
    module = net()
    optimiser = ggmc(module[0])
    for group, reason in [
        ({"params": module[2].parameters(), "momentum": 0.5}, "momentum is 0.9 in group 0 but 0.5 in group 1"),
        ({"params": [nn.Parameter(torch.zeros(2))]}, "all must be alike"),
    ]:
        with pytest.raises(BadInput, match=reason):
            optimiser.add_param_group(group)
        assert len(optimiser.param_groups) == 1
    optimiser.begin_trajectory()
    with pytest.raises(BadInput, match="a trajectory is under way, on which no parameter can be added"):
        optimiser.add_param_group({"params": module[2].parameters()})


def test_the_momentum_of_a_later_group_has_its_distribution() -> None:
    number = 200_000
    points = [torch.zeros(number, dtype=F64, requires_grad=True) for _ in range(2)]
    optimiser = ggmc(points[:1], temperature=0.5)
    for point in points:
        point.grad = torch.zeros_like(point)
    optimiser.step()
    optimiser.add_param_group({"params": points[1], "lr": 0.04})
    assert optimiser.momenta[number:].var().item() == pytest.approx(0.5, rel=5 * math.sqrt(2 / number))
    for group, rate in zip(optimiser.param_groups, (0.02, 0.01), strict=True):
        group["lr"] = rate  # another ratio between trajectories
    optimiser.begin_trajectory()
    for part in optimiser.momenta.split(number):
        assert part.var().item() == pytest.approx(0.5, rel=5 * math.sqrt(2 / number))


@pytest.mark.parametrize("reject", [True, False])
@pytest.mark.parametrize("lr", [1e-4, 1.0])
def test_the_potential_of_groups_is_known_after_a_trajectory(reject: bool, lr: float) -> None:
    """Of each group by its own weight decay, where the chain then is: at the end, or back at the start."""
    module = net()
    optimiser = ggmc(halves(module, {"weight_decay": 0.1}, {"weight_decay": 0.3, "lr": lr / 2}), lr=lr)
    optimiser.begin_trajectory(total(module))
    steps(module, optimiser, 3)
    info = optimiser.end_trajectory(total(module), reject=reject)
    assert info.accepted == (lr < 1 or not reject)
    prior = (0.1 * values(module)[:16].square().sum() + 0.3 * values(module)[16:].square().sum()) * N / 2
    assert optimiser.potential == pytest.approx(total(module)().item() + prior.item())
    for group in optimiser.param_groups:
        group["weight_decay"] *= 2
    assert optimiser.potential == pytest.approx(total(module)().item() + 2 * prior.item())


def test_the_stored_settings_are_those_of_all_groups() -> None:
    module = net()
    optimiser = ggmc(halves(module, {"lr": 0.01, "weight_decay": 0.2}, {"lr": 0.04}), temperature=0.5, friction_every=2)
    assert optimiser.kernel.name == "ggmc.optim.GGMC with scheme OABAO and friction_every 2"
    assert optimiser.kernel.settings == {
        "num_data": N,
        "temperature": 0.5,
        "step_size": pytest.approx((0.04 / N) ** 0.5),
        "lr": [0.01, 0.04],
        "momentum": 0.9,
        "weight_decay": [0.2, 0.0],
    }


def test_a_group_added_later_shares_the_friction_that_is_owed() -> None:
    """Between trajectories the friction at the last one's end is still to come: no momentum is drawn anew for it."""
    module = net()
    optimiser = ggmc(module[0], temperature=0.0, scheme="O(ABA)O")
    module[2].requires_grad_(False)
    optimiser.begin_trajectory()
    steps(module, optimiser, 3)
    optimiser.end_trajectory()
    momentum = optimiser.momenta.clone()
    assert momentum.abs().max() > 0
    module[2].requires_grad_(True)
    optimiser.add_param_group({"params": module[2].parameters()})
    optimiser.begin_trajectory()
    torch.testing.assert_close(optimiser.momenta[:16], 0.9**3 * momentum)
