"""The command line, configuration, running it all together."""
