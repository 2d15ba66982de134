"""Labelled incidents, built in code: `builder` writes a capture, `scenarios` says what happened and why."""
