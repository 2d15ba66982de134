"""Kubernetes: pods of JobSets, Kubeflow jobs, batch jobs and Kueue workloads, as attempts on nodes."""
