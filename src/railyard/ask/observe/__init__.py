"""From traces, logs and counters to the guilty part."""
