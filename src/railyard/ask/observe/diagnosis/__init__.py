"""From a record to the guilty part, or to nothing."""
