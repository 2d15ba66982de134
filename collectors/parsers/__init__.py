"""Pure parsers: text in, events out. No file, no clock, no Kafka in here."""
