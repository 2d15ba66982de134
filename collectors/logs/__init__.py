"""Workload logs: what a job's ranks, launchers and schedulers print, turned into `log` events.

`extract` is the pure core (a line in, events out), `families` its patterns, `tail` the readers around it.
"""
