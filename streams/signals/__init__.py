"""Windowed signals: one file each, a registry table, and the thresholds as data."""
