"""Every tensor and generator of an optimiser is on the device of its parameters, whatever the default device is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ggmc import optim
from tests.support.training import F64, N, compute_gradient, halves, net, steps, total, values


@pytest.mark.parametrize("grouped", [False, True], ids=["one group", "two groups"])
@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize("kind", ["OABAO", "O(ABA)O", "OBABO", "HMC", "SGHMC", "SGLD"])
def test_another_default_device_does_not_matter(kind: str, seed: int | None, grouped: bool) -> None:
    """Nothing can be computed on "meta", so that a tensor made there by mistake would be noticed."""
    module, found = net(), []
    given: Any = halves(module, {"lr": 0.02}, {"weight_decay": 0.2}) if grouped else module
    settings: Any = {"lr": 0.01, "num_data": N, "weight_decay": 0.1, "seed": seed}
    with torch.device("meta"):
        kinds: dict[str, Any] = {"HMC": optim.HMC, "SGHMC": optim.SGHMC, "SGLD": optim.SGLD}
        optimiser: Any = kinds[kind](given, **settings) if kind in kinds else optim.GGMC(given, scheme=kind, **settings)
        if kind != "HMC":
            steps(module, optimiser, 3)
        if kind != "SGLD":
            for reject in (False, kind != "SGHMC"):
                optimiser.begin_trajectory(total(module) if reject else None)
                steps(module, optimiser, 2)
                saved = optimiser.state_dict()
                optimiser.load_state_dict(saved)
                compute_gradient(module, optimiser, 2)
                found.append(optimiser.end_trajectory(total(module), reject=reject))
            optimiser.rest()
        extra = torch.zeros(2, dtype=F64, device="cpu", requires_grad=True)
        optimiser.add_param_group({"params": [extra], "lr": 0.005})
    assert optimiser.momenta.device.type == "cpu"
    assert all(p.device.type == "cpu" for p in module.parameters())
    assert values(module).isfinite().all()
    for info in found:
        assert info.log_accept.device.type == info.work.device.type == "cpu"
        assert info.work.isfinite()
