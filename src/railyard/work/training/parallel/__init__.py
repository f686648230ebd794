"""What each kind of parallelism puts on the streams of a step, one file each."""

from railyard.work.training.parallel.context import CONTEXT
from railyard.work.training.parallel.expert import EXPERT
from railyard.work.training.parallel.inner import Inner, inners
from railyard.work.training.parallel.tensor import TENSOR

__all__ = ["CONTEXT", "EXPERT", "TENSOR", "Inner", "inners"]
