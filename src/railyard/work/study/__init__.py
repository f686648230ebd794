"""From a document to a finished run, in one order for every kind of work: prepare, run, measure, write."""
