"""Scheduler connectors: who runs where, published on `raw.job` and `raw.placement`."""
