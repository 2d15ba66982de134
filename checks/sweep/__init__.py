"""Periodic multi-node sweeps: idle nodes are tested together, and the bad one is found.

`search` decides what runs next and what the results mean, and knows nothing else; `sweep` is the shell that
borrows nodes, runs nccl-tests and gives the nodes back.
"""
