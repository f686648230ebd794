"""What the cases of refusals.cases name."""

from tests.work.local.test_scenario import draft

from railyard.work.study.study import prepare
from railyard.work.training.sync import (
    DiLoCo,
    OneBit,
    PowerSgd,
    QuantizedDispatch,
    SparseEmbedding,
    StreamingDiLoCo,
    TopK,
)
from railyard.work.training.sync.check import check_values
from railyard.work.training.sync.spec import Communication, Priority, StaleSynchronous
