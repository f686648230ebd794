"""Where the precision of a job meets the device: what has no units for it is refused, not run in another width."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from railyard.kit.errors import InputError
from railyard.work.training.spec import Precision

if TYPE_CHECKING:
    from railyard.catalog import Accelerator

# bf16 and fp16 are one width: every device has units for one of them, and a job written for either runs on it.
_SIXTEEN_BITS = ("bf16", "fp16")


def supports(precision: Precision, accelerator: Accelerator) -> bool:
    """Whether the catalogue states a rate of matrix products in that precision, or in the other 16-bit one."""
    same = _SIXTEEN_BITS if precision in _SIXTEEN_BITS else (precision,)
    return any(name in accelerator.flops for name in same)


def check_precision(precision: Precision, accelerator: Accelerator) -> None:
    """Refuses a precision for which the device has no units.

    Args:
        precision: Of the matrix products.
        accelerator: On which they run.

    Raises:
        InputError: The catalogue states no rate for it.
    """
    if not supports(precision, accelerator):
        raise InputError(
            f"{accelerator.name} has no units for {precision}",
            key="precision",
            found=precision,
            allowed=[name for name in get_args(Precision) if name in accelerator.flops],
        )
