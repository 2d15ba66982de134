"""The shell around Faust: decode -> core -> outputs -> state -> acknowledge.

`api` is what a core implements, `local` runs cores in memory (replay, tests, a first look without
Kafka), the rest of this package runs the same cores on Kafka and is the only place that knows Faust.
"""
