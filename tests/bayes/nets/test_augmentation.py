"""Views of images: against padding and slicing one by one, what the seed fixes, and what is refused."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn import functional as F  # noqa: N812

import ggmc
from ggmc.bayes.nets import CNN, FreeViews, FrozenViews, GuideViews
from ggmc.bayes.nets.augmentation import view
from ggmc.errors import BadInput
from ggmc.guides.batches import Batches
from ggmc.targets.data_density import DataDensity


def plain_view(image: Tensor, code: Tensor, pad: int) -> Tensor:
    """One image [C, H, W], the long way."""
    flip, dy, dx = code.tolist()
    height, width = image.shape[1:]
    padded = F.pad(image.flip(2) if flip else image, (pad, pad, pad, pad))
    return padded[:, dy : dy + height, dx : dx + width]


def all_codes(pad: int) -> Tensor:
    return torch.tensor(list(product(range(2), range(2 * pad + 1), range(2 * pad + 1))))


def pictures(number: int, height: int = 5, width: int = 7) -> Tensor:
    """Every pixel another number, none zero, and not square: no two views look alike."""
    return torch.arange(1, number * 2 * height * width + 1).reshape(number, 2, height, width).float()


@pytest.mark.parametrize("pad", [0, 1, 2, 6])
def test_every_view_against_padding_and_slicing(pad: int) -> None:
    codes = all_codes(pad)
    images = pictures(len(codes))
    expected = torch.stack([plain_view(image, code, pad) for image, code in zip(images, codes, strict=True)])
    assert torch.equal(view(images, codes, pad), expected)


def test_the_flip_comes_before_the_shift() -> None:
    image = torch.tensor([[[[1, 2, 3]]]])
    assert view(image, torch.tensor([[1, 1, 2]]), 1).tolist() == [[[[2, 1, 0]]]]
    assert view(image, torch.tensor([[0, 1, 2]]), 1).tolist() == [[[[2, 3, 0]]]]
    assert view(image, torch.tensor([[1, 1, 0]]), 1).tolist() == [[[[0, 3, 2]]]]


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bool, torch.int32, torch.bfloat16, torch.float64, torch.complex64]
)
def test_any_dtype_device_and_layout(dtype: torch.dtype) -> None:
    codes = all_codes(1)
    images = pictures(len(codes)).to(dtype)
    expected = torch.stack([plain_view(image, code, 1) for image, code in zip(images, codes, strict=True)])
    for layout in (torch.contiguous_format, torch.channels_last):
        seen = view(images.to(memory_format=layout), codes.int(), 1)
        assert seen.dtype == dtype
        assert torch.equal(seen, expected)
    assert view(images.to("meta"), codes, 1).device.type == "meta"


def test_what_is_cut_off_is_gone_even_if_not_finite() -> None:
    image = torch.tensor([[[[math.nan, math.inf, 3.0]]]])
    assert view(image, torch.tensor([[0, 1, 3]]), 2)[0, 0, 0].tolist() == [0.0, 0.0, 0.0]
    assert view(image, torch.tensor([[0, 2, 4]]), 2)[0, 0, 0].tolist() == [3.0, 0.0, 0.0]


def test_views_under_vmap() -> None:
    codes = FrozenViews(number=3, pad=2, seed=5).codes(6)
    images = pictures(6)
    by_view = vmap(view, in_dims=(None, 1, None), out_dims=1)(images, codes, 2)
    looped = torch.stack([view(images, codes[:, k], 2) for k in range(3)], 1)
    assert torch.equal(by_view, looped)
    stacked = torch.stack([images, -images])
    by_chain = vmap(view, in_dims=(0, None, None))(stacked, codes[:, 1], 2)
    assert torch.equal(by_chain, torch.stack([view(x, codes[:, 1], 2) for x in stacked]))


def test_gradients_go_back_to_the_pixels_that_are_seen() -> None:
    codes, images = all_codes(2), pictures(50)
    weights = pictures(50).flip(3)
    slopes = grad(lambda x: (weights * view(x, codes, 2)).sum())(images)
    x = images.clone().requires_grad_()
    expected = torch.stack([plain_view(image, code, 2) for image, code in zip(x, codes, strict=True)])
    (weights * expected).sum().backward()
    assert x.grad is not None
    assert torch.equal(slopes, x.grad)


@pytest.mark.parametrize(
    ("images", "codes", "pad", "named"),
    [
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.long), 1, r"\[2, 3, 4\]"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(3, 3, dtype=torch.long), 1, r"\[3, 3\]"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, 4, 3, dtype=torch.long), 1, r"\[2, 4, 3\]"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, 3), 1, "float32"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, 3, dtype=torch.bool), 1, "bool"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, 3, dtype=torch.long), -1, "pad"),
    ],
)
def test_view_refuses(images: Tensor, codes: Tensor, pad: int, named: str) -> None:
    with pytest.raises(BadInput, match=named):
        view(images, codes, pad)


# Codes


def test_frozen_codes_are_fixed_by_the_seed_alone() -> None:
    views = FrozenViews(number=3, seed=7)
    codes = views.codes(200)
    state = torch.get_rng_state()
    assert codes.shape == (200, 3, 3)
    assert codes.dtype == torch.long
    assert torch.equal(codes, views.codes(200))
    assert torch.equal(codes, FrozenViews(number=3, seed=7).codes(200))
    assert torch.equal(codes[:11], views.codes(11))
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.equal(codes, FrozenViews(number=3, seed=8).codes(200))
    assert views == FrozenViews(number=3, seed=7)
    assert repr(views) == "FrozenViews(number=3, pad=4, flip=True, seed=7)"


@pytest.mark.parametrize("pad", [0, 2])
def test_the_first_view_is_the_image_untouched(pad: int) -> None:
    views, images = FrozenViews(number=2, pad=pad), pictures(20)
    codes = views.codes(20)
    assert (codes[:, 0] == torch.tensor([0, pad, pad])).all()
    seen = views.apply(images, codes)
    assert seen.shape == (20, 2, 2, 5, 7)
    assert torch.equal(seen[:, 0], images)
    assert torch.equal(seen[:, 1], view(images, codes[:, 1], pad))
    assert not torch.equal(seen[:, 1], images)


def frozen(pad: int, flip: bool) -> Tensor:
    return FrozenViews(number=11, pad=pad, flip=flip).codes(1800)[:, 1:].flatten(0, 1)


def free(pad: int, flip: bool) -> Tensor:
    views = FreeViews(pad=pad, flip=flip)
    return torch.cat([views.draw(9000), views.draw(9000)])


def of_the_guide(pad: int, flip: bool) -> Tensor:
    return GuideViews(pad=pad, flip=flip).draw(18_000, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("draw", [frozen, free, of_the_guide])
def test_all_views_are_equally_likely(draw: Callable[[int, bool], Tensor], flip: bool) -> None:
    codes = draw(1, flip)
    kinds, counts = codes.unique(dim=0, return_counts=True)
    assert torch.equal(kinds, all_codes(1)[: 18 if flip else 9])  # each combination, so all three are independent
    expected = len(codes) / len(kinds)
    assert ((counts - expected).abs() < 6 * math.sqrt(expected)).all()


def test_free_views_are_fresh_at_every_call_and_leave_the_global_generator_alone() -> None:
    views, again = FreeViews(seed=3), FreeViews(seed=3)
    state = torch.get_rng_state()
    first, second = views.draw(50), views.draw(50)
    assert first.shape == (50, 3)
    assert not torch.equal(first, second)
    torch.manual_seed(99)
    assert torch.equal(first, again.draw(50))
    assert torch.equal(second, again.draw(50))
    assert not torch.equal(first, FreeViews(seed=4).draw(50))
    torch.set_rng_state(state)
    views.draw(50)
    assert torch.equal(state, torch.get_rng_state())
    assert repr(views) == "FreeViews(pad=4, flip=True, seed=3)"


def test_free_views_applied() -> None:
    images = pictures(30)
    assert torch.equal(FreeViews(pad=2, seed=1).apply(images), view(images, FreeViews(pad=2, seed=1).draw(30), 2))


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ({"number": 0}, [FrozenViews]),
        ({"pad": -1}, [FrozenViews, FreeViews, GuideViews]),
        ({"pad": 1.5}, [FrozenViews, FreeViews, GuideViews]),
        ({"flip": "yes"}, [FrozenViews, FreeViews, GuideViews]),
    ],
)
def test_refused_settings(settings: dict[str, Any], kinds: list[Any]) -> None:
    for kind in kinds:
        with pytest.raises(BadInput, match=next(iter(settings))):
            kind(**settings)


def test_refused_numbers_and_codes() -> None:
    with pytest.raises(BadInput, match="num_examples"):
        FrozenViews().codes(0)
    with pytest.raises(BadInput, match="num_examples"):
        FreeViews().draw(2.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadInput, match=r"\[4, 3\]"):
        FrozenViews().apply(pictures(4), torch.zeros(4, 3, dtype=torch.long))


# In a target


def softmax_regression(views: FrozenViews | FreeViews, images: Tensor, labels: Tensor) -> DataDensity:
    """Class by class a template for the image; the log likelihood is averaged over the views."""

    def log_likelihood(weights: Tensor, batch: Any) -> Tensor:
        images, labels, codes = batch
        seen = views.apply(images, codes) if isinstance(views, FrozenViews) else views.apply(images)[:, None]
        logits = seen.flatten(2) @ weights
        return logits.log_softmax(-1).mean(1).gather(1, labels[:, None])[:, 0]

    codes = FrozenViews(number=3, pad=1).codes(len(images))
    start = torch.zeros(images[0].numel(), 3, dtype=images.dtype)
    return DataDensity(lambda w: -(w**2).sum() / 2, log_likelihood, (images, labels, codes), start)


def test_frozen_views_make_a_potential_that_is_exact_and_free_views_do_not() -> None:
    torch.manual_seed(0)
    images, labels = torch.randn(40, 1, 4, 4).double(), torch.randint(3, (40,))
    target = softmax_regression(FrozenViews(number=3, pad=1), images, labels)
    assert target.not_exact is None
    assert FrozenViews.not_exact is None
    position = torch.randn(2, 48).double()
    assert torch.equal(target.potential(position), target.potential(position))
    codes = FrozenViews(number=3, pad=1).codes(40)
    for row, potential in zip(position, target.potential(position), strict=True):
        expected = (row**2).sum() / 2
        for i in range(40):
            for k in range(3):
                logits = plain_view(images[i], codes[i, k], 1).flatten() @ row.reshape(16, 3)
                expected = expected - logits.log_softmax(0)[labels[i]] / 3
        torch.testing.assert_close(potential, expected)
    loose = softmax_regression(FreeViews(pad=1), images, labels)
    assert loose.not_exact
    assert FreeViews.not_exact


def test_the_default_device_does_not_matter() -> None:
    frozen_views, images = FrozenViews(number=3, pad=2), pictures(6)
    codes, drawn = frozen_views.codes(6), FreeViews(pad=2, seed=3).draw(6)
    with torch.device("meta"):
        assert torch.equal(frozen_views.codes(6), codes)
        assert torch.equal(frozen_views.apply(images, codes)[:, 0], images)
        assert torch.equal(FreeViews(pad=2, seed=3).draw(6), drawn)
        assert torch.equal(FreeViews(pad=2, seed=3).apply(images), view(images, drawn, 2))
        in_guide = GuideViews(pad=2).draw(6, torch.Generator("cpu").manual_seed(3))
        assert torch.equal(in_guide, drawn)
        assert torch.equal(GuideViews(pad=2).apply((images, drawn[:, 0]), drawn)[0], view(images, drawn, 2))


def test_views_are_plain_values() -> None:
    used, fresh = FreeViews(seed=3), FreeViews(seed=3)
    used.draw(10)
    assert used == fresh != FreeViews(seed=4)
    assert hash(used) == hash(fresh)
    assert pickle.loads(pickle.dumps(fresh)) == fresh
    guided = GuideViews(pad=2)
    assert pickle.loads(pickle.dumps(guided)) == guided != GuideViews(pad=2, flip=False)
    assert hash(guided) == hash(GuideViews(pad=2))
    assert repr(guided) == "GuideViews(pad=2, flip=True)"
    for views in (used, guided):
        with pytest.raises(AttributeError):
            views.pad = 3  # pyright: ignore[reportAttributeAccessIssue]


# In the guide


def classified(number: int = 24, vectorise: bool = True) -> ggmc.Posterior:
    torch.manual_seed(0)
    return posterior_of(torch.randn(number, 1, 8, 8).double(), torch.randint(3, (number,)), vectorise)


def posterior_of(images: Tensor, labels: Tensor, vectorise: bool = True) -> ggmc.Posterior:
    net = CNN(classes=3, widths=(2, 2)).double()
    return ggmc.Posterior(net, "categorical", ggmc.priors.Gaussian(1.0), images, labels, vectorise=vectorise)


def some_rows(target: ggmc.Posterior, chains: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return target.start + 0.3 * torch.randn(chains, len(target.start), generator=generator).double()


@pytest.mark.parametrize("vectorise", [True, False])
@pytest.mark.parametrize("recut", [True, False])
def test_untouched_views_give_the_clean_gradient(recut: bool, vectorise: bool) -> None:
    target = classified(vectorise=vectorise)
    plain = ggmc.Minibatch(7, recut=recut).bind(target)
    viewed = ggmc.Minibatch(7, recut=recut, augment=GuideViews(pad=2)).bind(target)
    numbers, tape = (field.tape(8, 3, torch.Generator().manual_seed(0)) for field in (plain, viewed))
    assert numbers is not None
    assert tape is not None
    rows, codes = some_rows(target, 3), tape[..., (6 if recut else 1) :].unflatten(-1, (6, 3))
    assert any(not torch.equal(plain(rows, a)[0], viewed(rows, b)[0]) for a, b in zip(numbers, tape, strict=True))
    codes[...] = torch.tensor([0, 2, 2])
    for a, b in zip(numbers, tape, strict=True):
        assert torch.equal(plain(rows, a)[0], viewed(rows, b)[0])


def test_the_gradient_is_that_of_the_views_in_the_tape() -> None:
    target, views = classified(), GuideViews(pad=2)
    field = ggmc.Minibatch(24, augment=views).bind(target)
    tape = field.tape(1, 2, torch.Generator().manual_seed(0))
    assert tape is not None
    rows = some_rows(target, 2)
    images, labels = target.data.slice(0, 24)
    held = Batches(target.data, 24).indices[0]  # the only batch, in its own order
    for row, entry, found in zip(rows, tape[0], field(rows, tape[0])[0], strict=True):
        codes = torch.empty(24, 3, dtype=torch.long)
        codes[held] = entry[1:].view(24, 3)
        seen = torch.stack([plain_view(image, code, 2) for image, code in zip(images, codes, strict=True)])
        torch.testing.assert_close(found, posterior_of(seen, labels).potential_and_gradient(row[None])[1][0])


def test_the_mean_over_tapes_is_the_gradient_averaged_over_all_views() -> None:
    """Each of the 18 views of all images at once is one potential; they are equally likely."""
    target, chains = classified(6), 6000
    row = some_rows(target, 1)
    field = ggmc.Minibatch(6, augment=GuideViews(pad=1)).bind(target)
    tape = field.tape(1, chains, torch.Generator().manual_seed(0))
    assert tape is not None
    each = field(row.expand(chains, -1), tape[0])[0]
    images, labels = target.data.slice(0, 6)
    by_view = []
    for code in all_codes(1):
        seen = torch.stack([plain_view(image, code, 1) for image in images])
        by_view.append(posterior_of(seen, labels).potential_and_gradient(row)[1][0])
    error = each.std(0) / chains**0.5 + 1e-12
    assert ((each.mean(0) - torch.stack(by_view).mean(0)).abs() < 6 * error).all()
    assert ((each.mean(0) - target.potential_and_gradient(row)[1][0]).abs() > 20 * error).any()


@pytest.mark.parametrize("recut", [True, False])
def test_a_posterior_is_sampled_exactly_from_views(recut: bool) -> None:
    target = classified()
    guide = ggmc.Minibatch(8, recut=recut, augment=GuideViews(pad=1))
    assert target.not_exact is None
    clean = target.potential(some_rows(target, 2))
    trace = ggmc.sample(target, ggmc.GGMC(0.02, guide=guide), draws=20, warmup=0, chains=2, progress=False)
    assert 0.1 < trace.stats["is_accepted"].mean() < 1
    assert torch.equal(target.potential(some_rows(target, 2)), clean)  # U knows nothing of views


def test_views_in_the_guide_go_with_frozen_ones() -> None:
    torch.manual_seed(0)
    images, labels = torch.randn(12, 1, 8, 8), torch.randint(3, (12,))
    net, frozen_views = CNN(classes=3, widths=(2,)), FrozenViews(2, pad=1)
    target = ggmc.Posterior(net, "categorical", ggmc.priors.Gaussian(1.0), images, labels, views=frozen_views)
    kernel = ggmc.GGMC(0.01, guide=ggmc.Minibatch(6, augment=GuideViews(pad=1)))
    assert ggmc.sample(target, kernel, draws=3, warmup=0, chains=2, progress=False).num_draws == 3


def test_where_views_of_the_guide_do_not_go() -> None:
    images, labels = torch.randn(12, 1, 8, 8), torch.randint(3, (12,))
    net: Any = CNN(classes=3, widths=(2,))
    with pytest.raises(BadInput, match=r"GuideViews go into the guide, as in ggmc.Minibatch"):
        ggmc.Posterior(net, "categorical", ggmc.priors.Gaussian(1.0), images, labels, views=GuideViews())  # pyright: ignore
    guide = ggmc.Minibatch(4, augment=GuideViews())
    alone = DataDensity(lambda w: -(w**2).sum(), lambda w, x: -((x.mean((1, 2, 3)) - w) ** 2), images, torch.zeros(()))
    with pytest.raises(BadInput, match=r"first part is a tensor of images, \(images, labels\), got Tensor"):
        guide.bind(alone)
    named = DataDensity(
        lambda w: -(w**2).sum(), lambda w, b: -((b[0]["x"].mean((1, 2, 3)) - w) ** 2), ({"x": images},), torch.zeros(())
    )
    with pytest.raises(BadInput, match="got dict"):
        guide.bind(named)
