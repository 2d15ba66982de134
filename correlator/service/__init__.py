"""The attribution service: a store of what was said, and REST over it. It reads; it never acts."""
