"""`python -m faultwire`: the same as the `faultwire` command."""

from faultwire.cli import main

main()
