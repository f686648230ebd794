"""How replicas stay in step, and what software does to send less for it."""

from railyard.workload.training.sync.asynchronous import Delayed, StaleSynchronous
from railyard.workload.training.sync.check import check_communication
from railyard.workload.training.sync.compression import OneBit, PowerSgd, Quantized, TopK, ZeroPlusPlus
from railyard.workload.training.sync.dispatch import QuantizedDispatch
from railyard.workload.training.sync.local import DiLoCo, LocalSgd, StreamingDiLoCo
from railyard.workload.training.sync.published import Finding
from railyard.workload.training.sync.scheduling import Priority
from railyard.workload.training.sync.sparse import SparseEmbedding
from railyard.workload.training.sync.spec import KINDS, Communication

__all__ = [
    "KINDS",
    "Communication",
    "Delayed",
    "DiLoCo",
    "Finding",
    "LocalSgd",
    "OneBit",
    "PowerSgd",
    "Priority",
    "Quantized",
    "QuantizedDispatch",
    "SparseEmbedding",
    "StaleSynchronous",
    "StreamingDiLoCo",
    "TopK",
    "ZeroPlusPlus",
    "check_communication",
]
