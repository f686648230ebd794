"""The regular design that a network as found was meant to be."""
