"""Ways of sending fewer bytes for a gradient, one file each."""

from railyard.work.training.sync.compression.one_bit import OneBit
from railyard.work.training.sync.compression.power import PowerSgd
from railyard.work.training.sync.compression.quantized import Quantized, ZeroPlusPlus
from railyard.work.training.sync.compression.scheme import Compression, compressions
from railyard.work.training.sync.compression.top_k import TopK

__all__ = ["Compression", "OneBit", "PowerSgd", "Quantized", "TopK", "ZeroPlusPlus", "compressions"]
