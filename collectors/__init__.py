"""Reading nodes, schedulers, logs and metric stores; delivering what they say without loss."""
