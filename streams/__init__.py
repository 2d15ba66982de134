"""Per-node windowed signals and the node health state machine; the engine that both apps run in."""
