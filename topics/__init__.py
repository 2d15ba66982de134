"""The wire contract: event models, topic catalogue, ids, (de)serialisation.

This room knows nobody. Everything the other rooms say to each other is said in these types.
"""
