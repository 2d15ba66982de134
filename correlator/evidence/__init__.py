"""What is known of one attempt: events folded into bounded, order-independent state.

Every structure here is a function of the *set* of events it has seen: neither the order of arrival nor
repeats change it. What grows without limit in a long or broken job (log storms, months of flaps) is folded
into samples that are themselves order-independent, so that a state stays small enough for one record.
"""
