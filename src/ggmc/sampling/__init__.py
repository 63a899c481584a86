"""Sampling: the loop over trajectories, with its progress bar, callbacks and interruptions."""
