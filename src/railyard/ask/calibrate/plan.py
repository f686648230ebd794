"""Which operators are measured: shapes of training steps, as large as the device is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """What is measured.

    Attributes:
        products: (m, n, k) of matrix products; tokens first.
        grouped: (experts, m, n, k).
        attention: (batch, heads, sequence, head dimension).
        copies: Bytes.
        norms: (rows, width).
        collectives: Bytes.
        least_s: Seconds that each operator is measured at least.
    """

    products: tuple[tuple[int, int, int], ...]
    grouped: tuple[tuple[int, int, int, int], ...]
    attention: tuple[tuple[int, int, int, int], ...]
    copies: tuple[int, ...]
    norms: tuple[tuple[int, int], ...]
    collectives: tuple[int, ...]
    least_s: float


# Projections of Llama 3 8B, 70B and 405B (TP 8), of GPT-3 (TP 4), short and long; squares for the best rate.
_LARGE_PRODUCTS = (
    (8192, 8192, 8192),
    (16384, 8192, 8192),
    (8192, 28672, 4096),
    (8192, 4096, 14336),
    (4096, 6144, 4096),
    (4096, 4096, 4096),
    (4096, 1280, 8192),
    (4096, 7168, 8192),
    (4096, 8192, 3584),
    (8192, 13312, 16384),
    (8192, 16384, 6656),
    (2048, 9216, 12288),
    (2048, 12288, 12288),
    (2048, 2048, 2048),
    (1024, 8192, 8192),
    (512, 4096, 4096),
    (4096, 128256, 4096),
)
LARGE = MeasurementPlan(
    products=_LARGE_PRODUCTS,
    grouped=((8, 2048, 14336, 4096), (8, 2048, 4096, 14336), (32, 512, 2816, 2048), (64, 128, 2048, 7168)),
    attention=((2, 32, 4096, 128), (1, 32, 8192, 128), (1, 16, 32768, 128), (4, 32, 2048, 64)),
    copies=(2**26, 2**28, 2**30),
    norms=((8192, 4096), (8192, 8192), (4096, 16384)),
    collectives=(2**20, 2**24, 2**28),
    least_s=0.3,
)
LARGE_QUICK = MeasurementPlan(
    products=_LARGE_PRODUCTS[:6],
    grouped=LARGE.grouped[:1],
    attention=LARGE.attention[:2],
    copies=(2**28,),
    norms=LARGE.norms[:1],
    collectives=(2**28,),
    least_s=0.05,
)
# For a processor: the same kinds of shape, a few GFLOP each.
SMALL = MeasurementPlan(
    products=(
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (1024, 4096, 1024),
        (1024, 1024, 4096),
        (512, 2048, 512),
        (256, 1024, 256),
        (2048, 512, 2048),
        (128, 4096, 1024),
    ),
    grouped=((8, 128, 1024, 512), (16, 64, 512, 512)),
    attention=((1, 4, 512, 64), (1, 4, 1024, 64)),
    copies=(2**24, 2**26, 2**27),
    norms=((2048, 1024), (1024, 4096)),
    collectives=(),
    least_s=0.2,
)
SMALL_QUICK = MeasurementPlan(
    products=((1024, 1024, 1024), (1024, 2048, 512), (512, 1024, 1024)),
    grouped=((4, 128, 512, 512),),
    attention=((1, 4, 256, 64),),
    copies=(2**25,),
    norms=((1024, 1024),),
    collectives=(),
    least_s=0.02,
)
