"""Bayesian neural networks: priors, likelihoods, posteriors, predictions, nets."""
