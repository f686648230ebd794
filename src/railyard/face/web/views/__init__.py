"""What the page draws of a run and is too large for its result: asked for piece by piece, by pixels or columns."""
