"""One module a source. The parsers beside them are pure and know no file."""
