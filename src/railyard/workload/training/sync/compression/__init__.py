"""Ways of sending fewer bytes for a gradient, one file each."""

from railyard.workload.training.sync.compression.one_bit import OneBit
from railyard.workload.training.sync.compression.power import PowerSgd
from railyard.workload.training.sync.compression.quantized import Quantized, ZeroPlusPlus
from railyard.workload.training.sync.compression.scheme import Compression, compressions
from railyard.workload.training.sync.compression.top_k import TopK

__all__ = ["Compression", "OneBit", "PowerSgd", "Quantized", "TopK", "ZeroPlusPlus", "compressions"]
