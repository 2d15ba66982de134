"""Getting events to the broker in order, without losing one, and remembering how far that came."""
