"""What an event is about; at one time they come in this order."""

OUTAGE, LANDED, ITERATED, ENTRY, RESTED = range(5)
