"""Kernels as plain values and back; a user's own parts are known by their full names and never taken for ours."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics.mass import LowRank, as_mass
from ggmc.dynamics.schedule import Along, Cosine, Cyclical, Drops, Over, ThereAndBack
from ggmc.errors import BadInput
from ggmc.guides import GradientField, Guide
from ggmc.kernels import KernelSettings, from_dict, to_dict
from ggmc.kernels.serialise import checksum, large_tensors
from ggmc.targets.base import Target

F64 = torch.float64


def by_way_of_json(kernel: Any) -> Any:
    return from_dict(json.loads(json.dumps(to_dict(kernel), allow_nan=False)))


@pytest.mark.parametrize(
    "kernel",
    [
        ggmc.GGMC(),
        ggmc.GGMC(0.1, math.inf, steps="2 sweeps", guide=ggmc.Minibatch("auto").with_size(10), mass=[1.0, 2.0]),
        ggmc.GGMC(0.1, along=Along(ThereAndBack(Cosine(0.2)), either_way=True), over=Over(5, Cyclical(2))),
        ggmc.GGMC(0.1, along=Along(ThereAndBack(Drops((0.1, 0.5, 0.7))))),
        ggmc.GGMC(mass="dense", guide=ggmc.ControlVariate(10, "iid", "diagonal")),
        ggmc.SGNHT(0.1, thermal_mass=3.0),
        ggmc.GGMC(0.1, scheme="O(BCSS3)O"),
        ggmc.GGMC(0.1, scheme="OB0.2ABAB0.2O"),
        ggmc.HMC(0.1, 3, scheme="O(BCSS4)O"),
        ggmc.MALT(0.1, steps=3, scheme="OBCSS2O"),
    ],
    ids=str,
)
def test_what_comes_back_is_the_same(kernel: Any) -> None:
    again = by_way_of_json(kernel)
    assert again == kernel
    assert type(again) is type(kernel)
    assert repr(again.guide) == repr(kernel.guide)


def test_what_was_left_open_stays_open() -> None:
    again = by_way_of_json(ggmc.GGMC(guide=ggmc.Minibatch(10)))
    assert (again.step_size, again.steps, again.scheme, again.mass) == (None, None, None, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mass_keeps_every_digit(dtype: torch.dtype) -> None:
    mass = torch.tensor([1 / 3, math.pi, 1e-7], dtype=dtype)
    again = by_way_of_json(ggmc.GGMC(0.1, mass=mass))
    assert again.mass.dtype == dtype
    assert torch.equal(again.mass, mass)
    found = by_way_of_json(ggmc.GGMC(0.1, mass=as_mass(mass)))  # in the form that warm-up gives it
    assert torch.equal(found.mass.stored(), mass.double())


def of_low_rank(d: int) -> LowRank:
    generator = torch.Generator().manual_seed(0)
    directions = torch.linalg.qr(torch.randn(d, 3, dtype=F64, generator=generator))[0]
    return LowRank(torch.rand(d, dtype=F64, generator=generator) + 0.1, directions, torch.tensor([9.0, 1 / 3, -0.5]))


def test_a_mass_of_low_rank_keeps_every_digit() -> None:
    kernel = ggmc.GGMC(0.1, mass=of_low_rank(5))
    again = by_way_of_json(kernel)
    assert again == kernel
    assert again != ggmc.GGMC(0.1, mass=of_low_rank(6))
    assert all(map(torch.equal, again.mass.tensors(), of_low_rank(5).tensors()))


def test_a_large_mass_of_low_rank_is_kept_beside_the_text() -> None:
    large: dict[str, Any] = {}
    plain = json.loads(json.dumps(to_dict(ggmc.GGMC(0.1, mass=of_low_rank(5000)), large)))
    assert large_tensors(plain) == set(large)
    assert len(large) == 1  # the directions
    assert from_dict(plain, large) == ggmc.GGMC(0.1, mass=of_low_rank(5000))
    with pytest.raises(BadInput, match=r"\[5000, 3\] is not stored with the kernel"):
        from_dict(plain)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"diagonal": {"tensor": [1.0, 2.0], "dtype": "float64"}}, "made of diagonal, directions, values"),
        ({"diagonal": 1.0, "directions": 2.0, "values": 3.0}, "the diagonal of a mass of low rank must be"),
    ],
)
def test_what_is_no_mass_of_low_rank_is_refused(parts: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        from_dict(to_dict(ggmc.GGMC(0.1)) | {"mass": {"mass": parts}})


def test_unknown_kernels_are_refused() -> None:
    with pytest.raises(BadInput, match="unknown kernel 'NUTS'"):
        from_dict({"kernel": "NUTS"})
    with pytest.raises(BadInput, match="unknown kernel None"):
        from_dict({"step_size": 0.1})


def test_unknown_guides_are_refused() -> None:
    plain = to_dict(ggmc.HMC(0.1, 2))
    with pytest.raises(BadInput, match="unknown guide, augmentation or schedule 'Oracle'"):
        from_dict(plain | {"guide": {"type": "Oracle"}})


# A user's classes with names of ours


@dataclass(frozen=True)
class Exact(Guide):
    """The user's, which halves every gradient."""

    share: float = 0.5

    def bind(self, target: Target) -> GradientField:
        raise NotImplementedError


@dataclass(frozen=True)
class Flat:
    """The user's, which is not flat."""

    def __call__(self, along: float) -> float:
        return 1.0 + (along - 0.5) ** 2


@dataclass(frozen=True, eq=False)
class MALA(ggmc.MALA):
    """The user's."""


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (ggmc.GGMC(0.1, guide=Exact()), "Exact"),
        (ggmc.GGMC(0.1, along=Along(Flat())), "Flat"),
        (MALA(0.1), "MALA"),
    ],
    ids=["guide", "schedule", "kernel"],
)
def test_a_users_class_with_a_name_of_ours_is_not_taken_for_ours(kernel: Any, name: str) -> None:
    text = json.dumps(to_dict(kernel))
    assert f'"{__name__}.{name}"' in text
    with pytest.raises(BadInput, match=rf"unknown .* '{__name__}\.{name}'"):
        from_dict(json.loads(text))


def test_a_users_functions_and_orders_are_named() -> None:
    def slower(along: float) -> float:
        return 1.0

    plain = to_dict(ggmc.GGMC(0.1, along=Along(slower)))
    assert plain["along"]["step_size"]["type"].endswith("slower")
    order = ggmc.CustomOrder(lambda entries, batches, generator: [0] * entries, reversible=True)
    assert "CustomOrder" in json.dumps(to_dict(ggmc.GGMC(0.1, guide=ggmc.Minibatch(10, order))))


def test_large_tensors_are_kept_apart_by_their_numbers_shape_and_precision() -> None:
    numbers = torch.arange(1.0, 10_002.0)
    assert "tensor" in to_dict(ggmc.GGMC(0.1, mass=numbers[:-1]))["mass"]  # up to 10,000 as text
    apart: dict[str, torch.Tensor] = {}
    kernel = ggmc.GGMC(0.1, mass=numbers)
    plain = json.loads(json.dumps(to_dict(kernel, apart)))
    assert plain["mass"] == {"large": checksum(numbers), "dtype": "float32", "shape": [10_001]}
    assert large_tensors([plain, {"other": plain}]) == apart.keys() == {checksum(numbers)}
    numbers_before = numbers.clone()
    numbers.add_(1)
    again: Any = from_dict(plain, apart)
    assert torch.equal(again.mass, numbers_before)
    with pytest.raises(BadInput, match=r"a float32 tensor of shape \[10001\] is not stored with the kernel"):
        from_dict(plain)
    other = numbers.clone()
    other[5000] += 1
    each = [numbers, other, numbers[:, None], numbers.double(), numbers.view(torch.int32)]
    assert len({checksum(tensor) for tensor in each}) == len(each)
    assert checksum(numbers.flip(0).flip(0)) == checksum(numbers)


def test_settings_alone_say_no_more_than_they_know() -> None:
    nothing = KernelSettings("Own")
    assert (nothing.step_size, nothing.temperature, nothing.adjust, str(nothing)) == (None, 1.0, False, "Own()")
    known = KernelSettings("Own", {"step_size": 0.1, "temperature": 0.5, "adjust": True})
    assert (known.step_size, known.temperature, known.adjust) == (0.1, 0.5, True)
    assert str(known) == "Own(step_size=0.1, temperature=0.5, adjust=True)"
    assert to_dict(known) == {"kernel": "Own", "step_size": 0.1, "temperature": 0.5, "adjust": True}
