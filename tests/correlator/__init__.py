"""Tests of the correlator: evidence, rules, decisions and the processor."""
