"""Targets: what is sampled, π(θ) ∝ exp(−U(θ)/T), as a potential U of one flat row per chain."""
