"""Programs that checks run as processes of their own: a hung driver call must not hang the runner."""
