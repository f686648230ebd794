"""Job speeds on a shared network, computed by the flow engine."""
