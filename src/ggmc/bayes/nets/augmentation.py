"""Augmented images, in three forms: which of them is exact, and what posterior it samples.

A view of an image is three whole numbers, its code (flip, dy, dx), carried out in this order: mirror left and right if
flip is 1; put `pad` zeros around; cut out a window of the original size whose top left corner is at row dy and column
dx of the padded image. So (0, pad, pad) is the image itself. Codes are data: they can be stored, counted and repeated.

| form          | given to                     | views change         | U is that of           | exact          |
|---------------|------------------------------|----------------------|------------------------|----------------|
| `GuideViews`  | `ggmc.Minibatch(augment=…)`  | with each trajectory | the images as they are | yes            |
| `FrozenViews` | `ggmc.Posterior(views=…)`    | never                | K fixed views of each  | yes            |
| `FreeViews`   | `ggmc.Posterior(views=…)`    | with each evaluation | none: it is random     | no             |

`GuideViews` samples the posterior of the model without augmentation: views are part of the tape and only drive the
motion, and the Metropolis test corrects them away (`ggmc.guides.augmentation`). The further views are from the images,
as the model sees them, the fewer trajectories are accepted.

`FrozenViews` samples the posterior of another model. It draws K views of each example once; with the log likelihood of
an example averaged over its K views,

    U(θ) = −log prior(θ) − Σᵢ (1/K) Σₖ log p(yᵢ | view k of xᵢ, θ),

a deterministic sum over examples. It counts each example once, not K times, and depends on the K views drawn.

`FreeViews` is the augmentation of ordinary training. U is a random number instead of a function of the parameters, and
a Metropolis test that compares two such numbers is not exact: it is there to be monitored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from ggmc.errors import BadInput, require_count
from ggmc.guides.augmentation import Augmentation
from ggmc.plain import Tree


@dataclass(frozen=True)
class GuideViews(Augmentation):
    """Views in the guide alone, fresh for each trajectory: exact, and of the posterior of the images as they are.

    All flips and offsets are equally likely. The data are pairs whose first part is the images, as in `ggmc.Posterior`.

    Args:
        pad: How many zeros are put around the image, in pixels on each side: the largest shift. Default 4.
        flip: Whether a view may be mirrored left and right. Default True.

    Example:
        >>> import torch, ggmc
        >>> images, labels = torch.rand(40, 1, 8, 8), torch.randint(10, (40,))
        >>> posterior = ggmc.Posterior(ggmc.nets.CNN(), "categorical", ggmc.priors.Gaussian(1.0), images, labels)
        >>> guide = ggmc.Minibatch(10, augment=ggmc.nets.GuideViews(pad=1))
        >>> trace = ggmc.sample(posterior, ggmc.GGMC(1e-2, guide=guide), draws=5, warmup=0, chains=2, progress=False)
        >>> trace.num_draws
        5
    """

    pad: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        require_count("pad", self.pad, least=0)
        _check_flip(self.flip)

    def draw(self, number: int, generator: torch.Generator) -> Tensor:
        return _random_codes((number,), self.pad, self.flip, generator)

    def apply(self, batch: Tree, codes: Tensor) -> Tree:
        if not isinstance(batch, tuple | list) or not isinstance(batch[0], Tensor):
            raise BadInput(
                "GuideViews need data whose first part is a tensor of images, (images, labels), got "
                f"{type(batch[0] if isinstance(batch, tuple | list) else batch).__name__}"
            )
        return (view(batch[0], codes, self.pad), *batch[1:])


@dataclass(frozen=True)
class FrozenViews:
    """Several views of each example, fixed by the seed: exact, because the data never change.

    The first view is the image itself; the others are independent and uniform over all flips and offsets, so a view can
    occur twice. An example's views depend only on the seed and its row. Pass the codes to the target as data, beside
    the images and labels, and average the log likelihood over the views.

    Args:
        number: How many views each example has, the image itself included. Default 4.
        pad: How many zeros are put around the image, in pixels on each side: the largest shift. Default 4.
        flip: Whether a view may be mirrored left and right. Default True.
        seed: The seed of the views. Default 0.

    Example:
        >>> import torch
        >>> from ggmc.bayes import nets
        >>> views = nets.FrozenViews(number=4)
        >>> images = torch.rand(100, 3, 32, 32)
        >>> codes = views.codes(len(images))
        >>> codes.shape, codes[7, 0].tolist()
        (torch.Size([100, 4, 3]), [0, 4, 4])
        >>> def log_likelihood(params, batch):                     # of data=(images, labels, codes)
        ...     images, labels, codes = batch
        ...     seen = views.apply(images, codes)                  # [n, 4, 3, 32, 32]
        ...     logits = torch.func.functional_call(net, params, seen.flatten(0, 1)).unflatten(0, seen.shape[:2])
        ...     return logits.log_softmax(-1).mean(1).gather(1, labels[:, None])[:, 0]
        >>> net = nets.CNN(channels_in=3, image=32)
        >>> batch = images, torch.randint(10, (100,)), codes
        >>> log_likelihood(dict(net.named_parameters()), batch).shape
        torch.Size([100])
    """

    not_exact: ClassVar[str | None] = None

    number: int = 4
    pad: int = 4
    flip: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("number", self.number)
        require_count("pad", self.pad, least=0)
        _check_flip(self.flip)

    def codes(self, num_examples: int) -> Tensor:
        """The codes of the first examples, the same at every call.

        Args:
            num_examples: How many examples, n.

        Returns:
            Whole numbers [n, number, 3], on the CPU.
        """
        require_count("num_examples", num_examples)
        generator = torch.Generator("cpu").manual_seed(self.seed)
        codes = _random_codes((num_examples, self.number), self.pad, self.flip, generator)
        codes[:, 0] = torch.tensor([0, self.pad, self.pad], device="cpu")
        return codes

    def apply(self, images: Tensor, codes: Tensor) -> Tensor:
        """All views of each image.

        Args:
            images: [n, C, H, W].
            codes: [n, number, 3], from `codes`.

        Returns:
            [n, number, C, H, W].
        """
        if codes.dim() != 3:
            raise BadInput(f"codes must be [n, number, 3], as from FrozenViews.codes, got shape {list(codes.shape)}")
        several = images.unsqueeze(1).expand(-1, codes.shape[1], *images.shape[1:])
        return view(several.flatten(0, 1), codes.flatten(0, 1), self.pad).unflatten(0, several.shape[:2])


@dataclass(frozen=True)
class FreeViews:
    """A fresh view of each example at every call: not exact, for monitoring with `adjust=False`.

    This is the augmentation of ordinary training. The potential changes from one call to the next, so a Metropolis test
    based on it does not correct the chain. The object has its own generator; torch's global one is not used.

    Args:
        pad: How many zeros are put around the image, in pixels on each side: the largest shift. Default 4.
        flip: Whether a view may be mirrored left and right. Default True.
        seed: The seed of the object's generator. Default 0.

    Example:
        >>> import torch
        >>> from ggmc.bayes import nets
        >>> views = nets.FreeViews(seed=1)
        >>> images = torch.rand(100, 3, 32, 32)
        >>> views.apply(images).shape
        torch.Size([100, 3, 32, 32])
        >>> torch.equal(views.draw(100), views.draw(100))
        False
    """

    not_exact: ClassVar[str | None] = (
        "FreeViews draws fresh views at every call, so U is not a function of the parameters. Use FrozenViews, "
        "Minibatch(augment=GuideViews()), or adjust=False"
    )

    pad: int = 4
    flip: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("pad", self.pad, least=0)
        _check_flip(self.flip)

    @cached_property
    def generator(self) -> torch.Generator:
        """Where the views come from; it moves on with every draw."""
        return torch.Generator("cpu").manual_seed(self.seed)

    def draw(self, num_examples: int) -> Tensor:
        """Fresh codes, one for each example.

        Args:
            num_examples: How many examples, n.

        Returns:
            Whole numbers [n, 3], on the CPU.
        """
        require_count("num_examples", num_examples)
        return _random_codes((num_examples,), self.pad, self.flip, self.generator)

    def apply(self, images: Tensor) -> Tensor:
        """A fresh view of each image.

        Args:
            images: [n, C, H, W].

        Returns:
            [n, C, H, W].
        """
        return view(images, self.draw(len(images)), self.pad)


def view(images: Tensor, codes: Tensor, pad: int) -> Tensor:
    """Each image as its code says, for any dtype and device, also under `torch.func.vmap`.

    Args:
        images: [n, C, H, W].
        codes: One code (flip, dy, dx) for each image, [n, 3]; offsets run from 0 to 2 · `pad`.
        pad: How many zeros are put around the image; what lies beyond the padding is zero too.

    Returns:
        [n, C, H, W].

    Example:
        >>> import torch
        >>> from ggmc.bayes.nets.augmentation import view
        >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
        >>> view(image, torch.tensor([[0, 1, 1]]), pad=1).tolist()           # untouched
        [[[[1, 2], [3, 4]]]]
        >>> view(image, torch.tensor([[1, 1, 1]]), pad=1).tolist()           # mirrored
        [[[[2, 1], [4, 3]]]]
        >>> view(image, torch.tensor([[0, 2, 1]]), pad=1).tolist()           # one row further down
        [[[[3, 4], [0, 0]]]]
    """
    require_count("pad", pad, least=0)
    if images.dim() != 4 or codes.shape != (images.shape[0], 3):
        raise BadInput(
            "images must be [n, C, H, W] with one code (flip, dy, dx) each, [n, 3], got shapes "
            f"{list(images.shape)} and {list(codes.shape)}"
        )
    if codes.is_floating_point() or codes.is_complex() or codes.dtype == torch.bool:
        raise BadInput(f"codes must be whole numbers, as from FrozenViews.codes, got {codes.dtype}")
    height, width = images.shape[2:]
    flip, down, right = codes.to(images.device, torch.long).unsqueeze(-1).unbind(1)  # each [n, 1]
    rows = torch.arange(height, device=images.device) + down - pad  # [n, H]: where each row comes from
    columns = torch.arange(width, device=images.device) + right - pad
    inside = ((rows >= 0) & (rows < height)).unsqueeze(2) & ((columns >= 0) & (columns < width)).unsqueeze(1)
    columns = torch.where(flip != 0, width - 1 - columns, columns)
    # Places outside read an arbitrary pixel and are set to zero afterwards: cheaper than padding every image.
    pixels = rows.clamp(0, height - 1).unsqueeze(2) * width + columns.clamp(0, width - 1).unsqueeze(1)
    pixels = pixels.flatten(1).unsqueeze(1).expand(-1, images.shape[1], -1)
    seen = images.flatten(2).gather(2, pixels).unflatten(2, (height, width))
    return seen.masked_fill(~inside.unsqueeze(1), 0)


def _random_codes(shape: tuple[int, ...], pad: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Uniform codes, one random number each: the codes of the first examples do not depend on how many follow."""
    sides = (1 + int(flip), 2 * pad + 1, 2 * pad + 1)
    numbers = torch.randint(sides[0] * sides[1] * sides[2], shape, generator=generator, device=generator.device)
    return torch.stack(torch.unravel_index(numbers, sides), -1)


def _check_flip(flip: bool) -> None:
    if not isinstance(flip, bool):
        raise BadInput(f"flip must be True or False, got {flip!r}")
