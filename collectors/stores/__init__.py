"""Stores that are asked after the fact: logs and metrics that others kept, turned into raw events."""
