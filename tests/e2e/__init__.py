"""The whole line as its users meet it: real processes, a real broker, the real kernel log."""
