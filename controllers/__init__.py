"""Reference consumers that act on what the correlator says."""
