"""Request: the arguments of a run, as they are stored with it; and the chains that they make."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from ggmc.errors import BadInput, require_between, require_count, require_positive, require_seed
from ggmc.kernels import Kernel
from ggmc.plain import PlainDict
from ggmc.sampling.chains import Chains
from ggmc.sampling.compiling import Choice, check_choice
from ggmc.sampling.ranks import Ranks
from ggmc.targets.base import Target


@dataclass(frozen=True)
class Request:
    """What a run was asked for.

    Args:
        draws: Draws of each chain.
        warmup: Trajectories of warm-up.
        chains: Chains in all.
        seed: As the user gave it.
        target_accept: The acceptance to tune for.
        anneal: The temperature that warm-up starts from.
        own_seed: Of the random numbers: `seed`, or one that depends on given starts too.
        part: (i, n) for a run of the i-th of n equal parts of the chains; None for all of them.
        compile: Whether trajectories are compiled.

    Example:
        >>> from ggmc.sampling.request import Request
        >>> Request(draws=10, warmup=5, chains=4, seed=0, part=(1, 2)).own_chains()[0]
        slice(2, 4, None)
    """

    draws: int
    warmup: int
    chains: int
    seed: int
    target_accept: float | None = None
    anneal: float | None = None
    own_seed: int = 0
    part: tuple[int, int] | None = None
    compile: Choice = "auto"

    @classmethod
    def asked(
        cls,
        draws: int,
        warmup: int,
        chains: int,
        seed: int,
        target_accept: float | None,
        anneal: float | None,
        start: Tensor | None,
        part: tuple[int, int] | None = None,
        compile: Choice = "auto",
    ) -> Request:
        """From a user's arguments, which are checked.

        Args:
            draws: As in the class, like those that follow.
            warmup: Likewise.
            chains: Likewise.
            seed: Likewise.
            target_accept: Likewise.
            anneal: Likewise.
            start: The chains' first positions, if they were given.
            part: As in the class.
            compile: Likewise.
        """
        cls(draws, warmup, chains, seed, target_accept, anneal, part=part, compile=compile)._check()
        own_seed = int(seed) if start is None else _seed_from(int(seed), _checked(start, chains))
        numbers = int(draws), int(warmup), int(chains), int(seed)
        return cls(*numbers, target_accept, anneal, own_seed, part, compile)

    @classmethod
    def stored(cls, plain: PlainDict) -> Request:
        """From `to_dict`, by way of JSON.

        Args:
            plain: It may have other entries too.
        """
        plain = {"compile": False} | plain  # as runs of earlier versions were
        request = cls(**{name: plain[name] for name in cls.__dataclass_fields__})
        request._check()
        return request if request.part is None else replace(request, part=tuple(request.part))

    def _check(self) -> None:
        require_count("draws", self.draws)
        require_count("warmup", self.warmup, least=0)
        require_count("chains", self.chains)
        require_seed("seed", self.seed)
        require_seed("own_seed", self.own_seed)
        if self.target_accept is not None:
            require_between("target_accept", self.target_accept)
        if self.anneal is not None:
            require_positive("anneal", self.anneal)
        check_choice(self.compile)
        if self.part is not None and (len(self.part) != 2 or not 0 <= self.part[0] < self.part[1]):
            raise BadInput(f"part must be (i, n) with i below n, got {self.part!r}")

    def to_dict(self) -> PlainDict:
        """As plain values."""
        return asdict(self)

    def own_chains(self, ranks: Ranks | None = None) -> tuple[slice, int] | None:
        """Which of the chains are this process's, and the seed of their random numbers; None for all of them.

        Args:
            ranks: Among which the chains may be shared out.
        """
        part = (ranks.rank, ranks.number) if ranks is not None and ranks.by_chains else self.part
        if part is None:
            return None
        number, parts = part
        each, rest = divmod(self.chains, parts)
        if rest:
            what = "ranks" if self.part is None else "parts"
            raise BadInput(f"chains={self.chains} cannot be shared out over {parts} {what}: give a multiple of it")
        digest = hashlib.sha256(f"{self.own_seed} part {number}".encode()).digest()
        return slice(number * each, (number + 1) * each), int.from_bytes(digest[:8], "little") >> 1

    def make_chains(
        self,
        target: Target,
        kernel: Kernel,
        ranks: Ranks,
        start: Tensor | None = None,
        stored: PlainDict | None = None,
    ) -> Chains:
        """The chains of the run, new or as they were stored.

        Args:
            target: What is sampled.
            kernel: How.
            ranks: The processes that carry out the run.
            start: The chains' first positions [chains, d], if they were given.
            stored: From `Chains.state_dict`.
        """
        return Chains(
            target,
            kernel,
            self.chains,
            self.warmup,
            self.own_seed,
            self.target_accept,
            start,
            self.anneal,
            stored,
            self.own_chains(ranks),
            self.compile if not ranks.several or ranks.by_chains else False,
            self.draws,
        )


def _checked(start: object, chains: int) -> Tensor:
    if not isinstance(start, Tensor) or start.dim() != 2 or len(start) != chains or not start.is_floating_point():
        got = f"{list(start.shape)} of {start.dtype}" if isinstance(start, Tensor) else type(start).__name__
        raise BadInput(
            f"start must be a floating point tensor [chains, d] with {chains} rows, one for each chain, got {got}"
        )
    return start


def _seed_from(seed: int, start: Tensor) -> int:
    """A run from given positions has random numbers of its own: with those of the run before it would repeat it."""
    content = start.detach().to("cpu", torch.float64).contiguous().numpy().tobytes()
    digest = hashlib.sha256(str(seed).encode() + content).digest()
    return int.from_bytes(digest[:8], "little") >> 1
