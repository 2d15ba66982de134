"""Attribution: from the evidence of one attempt to a verdict, in stages, every stage a pure function.

Scope, extract, then the rules of the phases EARLY, NODE, JOB, FINAL and POST_OUTCOME, found by a registry.
"""
