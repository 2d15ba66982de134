"""A whole fleet's raw traffic, made up from a seed: for capacity planning, drills, tests and benchmarks.

`plan` decides what happens (jobs, faults, right verdicts), `stream` tells it in the order of time without
keeping it, `capture` and `kafka` take it down. Everything follows from the scenario and the seed: no clock,
no environment.
"""
