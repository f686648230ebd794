"""What each kind of parallelism puts on the streams of a step, one file each."""

from railyard.work.training.parallel.pieces import CONTEXT, EXPERT, TENSOR, Inner, inners

__all__ = ["CONTEXT", "EXPERT", "TENSOR", "Inner", "inners"]
