"""Rounds of learning over links, in seconds: exact order statistics of the clients that were drawn."""
