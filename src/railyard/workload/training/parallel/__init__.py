"""What each kind of parallelism puts on the streams of a step, one file each."""

from railyard.workload.training.parallel.context import CONTEXT
from railyard.workload.training.parallel.expert import EXPERT
from railyard.workload.training.parallel.inner import Inner, inners
from railyard.workload.training.parallel.tensor import TENSOR

__all__ = ["CONTEXT", "EXPERT", "TENSOR", "Inner", "inners"]
