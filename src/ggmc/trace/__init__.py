"""Traces: the draws of a run, where they are stored, and what they say about themselves."""
