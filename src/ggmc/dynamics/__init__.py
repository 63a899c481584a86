"""Dynamics: the motion of the chains, letter by letter, and the Metropolis test at its end."""
