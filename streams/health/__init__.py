"""The health of a node: a state machine whose whole table is data."""
