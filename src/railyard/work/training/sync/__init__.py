"""Synchronization of replicas, and methods to send less for it."""

from railyard.work.training.sync.check import check_communication
from railyard.work.training.sync.compression import OneBit, PowerSgd, Quantized, TopK, ZeroPlusPlus
from railyard.work.training.sync.local import DiLoCo, LocalSgd, StreamingDiLoCo
from railyard.work.training.sync.spec import (
    KINDS,
    Communication,
    Delayed,
    Priority,
    QuantizedDispatch,
    StaleSynchronous,
)
from railyard.work.training.sync.wire import Finding, SparseEmbedding

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
