"""The demo: the whole pipeline, live, with the incident that this project exists for."""
