"""One module a family of lines. A new shape is a `pattern(...)` in its family; a new code also a `Code`."""
