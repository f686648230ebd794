"""Machines outside the data center: clients, their access links, and transports over wide-area distances."""
