"""Variants of a result, one file a kind of work: the file has the name of the kind in `railyard.work.kinds`."""
