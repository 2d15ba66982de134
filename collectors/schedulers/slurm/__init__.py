"""Slurm, 22.05 and later: what the queue says, as attempts of jobs on nodes and GPUs."""
