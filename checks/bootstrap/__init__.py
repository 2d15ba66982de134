"""The bootstrap suite: what a node must do alone before it may take work. One module a check; in each, what
is judged is a pure function beside what is run."""
