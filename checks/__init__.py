"""Active checks: bootstrap suite and periodic multi-node sweeps."""
