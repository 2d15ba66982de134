"""Acting on Kubernetes: cordon, taint, condition, restart; only where the mark is ours."""
