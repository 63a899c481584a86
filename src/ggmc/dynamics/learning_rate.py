"""Learning rate ℓ and momentum β, as in Garriga-Alonso and Fortuin (2020), against step size h and friction γ.

    β = e^(−γh),  ℓ = N h²          so          h = √(ℓ/N),  γ = −√(N/ℓ) · log β

For the symplectic Euler scheme (SGHMC) β = 1 − γh instead. ℓ is the learning rate of SGD on the *mean* loss over N
examples. In OABAO, one kick moves θ with the effective rate N h²(1 + β)/2.
"""

from __future__ import annotations

import math

from ggmc.errors import BadInput, require_between, require_count, require_not_negative, require_positive


def from_learning_rate(lr: float, momentum: float, num_data: int, *, euler: bool = False) -> tuple[float, float]:
    """Learning rate and momentum as (step_size, friction).

    Args:
        lr: ℓ, the learning rate of SGD on the mean loss.
        momentum: β, between 0 and 1.
        num_data: N, the number of examples.
        euler: Whether β = 1 − γh, as for SGHMC, in place of e^(−γh).

    Returns:
        h and γ.

    Example:
        >>> import ggmc
        >>> step_size, friction = ggmc.from_learning_rate(lr=0.01, momentum=0.9, num_data=50_000)
        >>> f"{step_size:.3e} {friction:.2f}"
        '4.472e-04 235.59'
    """
    require_positive("lr", lr)
    require_count("num_data", num_data)
    require_between("momentum", momentum, ends=True)
    step_size = math.sqrt(lr / num_data)
    lost = 1 - momentum if euler else (math.inf if momentum == 0 else -math.log(momentum))
    return step_size, lost / step_size


def to_learning_rate(step_size: float, friction: float, num_data: int, *, euler: bool = False) -> tuple[float, float]:
    """Step size and friction as (lr, momentum): the inverse of `from_learning_rate`.

    Args:
        step_size: h.
        friction: γ.
        num_data: N, the number of examples.
        euler: Whether β = 1 − γh, as for SGHMC, in place of e^(−γh).

    Returns:
        ℓ and β.

    Example:
        >>> import ggmc
        >>> lr, momentum = ggmc.to_learning_rate(4.472136e-04, 235.59, num_data=50_000)
        >>> f"{lr:.3f} {momentum:.2f}"
        '0.010 0.90'
    """
    require_positive("step_size", step_size)
    require_not_negative("friction", friction, finite=False)
    require_count("num_data", num_data)
    lost = friction * step_size
    if euler and lost > 1:
        raise BadInput(f"the Euler scheme needs friction · step_size of at most 1, got {lost:g}")
    return num_data * step_size**2, 1 - lost if euler else math.exp(-lost)
