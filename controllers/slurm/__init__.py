"""Acting on Slurm: drain, requeue elsewhere, reboot, return; only where the mark is ours."""
