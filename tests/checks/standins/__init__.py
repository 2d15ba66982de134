"""Programs that print what the real tools print."""
