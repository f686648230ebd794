"""Machines outside a hall: clients, their access links, and transports over the world's distances."""
