"""Joining signals and logs to jobs; attribution; what to do."""
