"""Verbs, one file a question or a family of them: a record is its registration, see `railyard.face.verb`."""
