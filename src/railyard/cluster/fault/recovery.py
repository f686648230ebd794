"""How a job recovers from a death that its network cannot route around: abort, replacement, restart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from railyard.kit.errors import InputError
from railyard.kit.schema.quantity import bounded, limits

LOCAL_TIMEOUT_S = 4.096e-6
"""Unit of InfiniBand's local acknowledgement timeout: 4.096 us x 2^timeout (InfiniBand architecture, 9.7.6)."""


@dataclass(frozen=True)
class Recovery:
    """What happens between a death that hangs a job and its next step; sources: docs/explanation/faults-recovery.md.

    Attributes:
        ib_timeout: Exponent of a queue pair's timeout, 4.096 us x 2^n (`NCCL_IB_TIMEOUT`, default 20: 4.3 s).
        ib_retries: Number of timeouts (`NCCL_IB_RETRY_CNT`, default 7: 30 s in total).
        watchdog_s: Time after which a hanging collective is aborted whatever the NIC reports (PyTorch: 10 min).
        process_s: Time until the launcher notices a dead process and ends the others (torchrun's agents poll every few
            seconds; an assumption).
        diagnosis_s: Time until it is known what to replace (MegaScale, NSDI 2024: less than 10 min on average).
        spares: Number of standby hosts.
        schedule_s: Time until a spare replaces a dead host (an assumption).
        repair_s: Time to repair if no spare helps (median of 309 faults of 400 servers in the InfiniteHBD trace,
            SIGCOMM 2025: 1.3 days; quartiles 0.1 and 4.5).
        init_s: Time from the start of the processes to the first step, without loading (MLPerf Training v5.0, 8,192
            H100:
            374 s).
    """

    ib_timeout: int = field(default=20, metadata=bounded(limits(1, 31)))
    ib_retries: int = field(default=7, metadata=bounded(limits(0, 7)))
    watchdog_s: float = 600.0
    process_s: float = 5.0
    diagnosis_s: float = 600.0
    spares: int = 0
    schedule_s: float = 60.0
    repair_s: float = 1.3158 * 86_400
    init_s: float = 374.0

    def __post_init__(self) -> None:
        """Rejects impossible values."""
        if not 1 <= self.ib_timeout <= 31:
            raise InputError("the timeout's exponent", key="ib_timeout", found=self.ib_timeout, allowed="1 to 31")
        if not 0 <= self.ib_retries <= 7:
            raise InputError("three bits count retries", key="ib_retries", found=self.ib_retries, allowed="0 to 7")

    def restart(
        self, *, hosts: int, spell_s: float | None, read_s: float, unsaved_s: float
    ) -> tuple[tuple[str, float], ...]:
        """Time from the abort of a job until it is back where it was: causes and seconds.

        Args:
            hosts: Hosts that are dead or cut off.
            spell_s: Duration of the fault; None: until it is repaired.
            read_s: Time to load the checkpoint.
            unsaved_s: Work since the checkpoint.
        """
        place = ("until it is repaired", self.repair_s)
        if 0 < hosts <= self.spares:
            place = ("until a spare takes over", self.schedule_s)
        elif spell_s is not None:
            place = ("until it is back", max(spell_s - self.abort_s - self.diagnosis_s, 0.0))
        return (
            ("diagnosis", self.diagnosis_s),
            place,
            ("start of the processes", self.init_s),
            ("loading the checkpoint", read_s),
            ("work since the last checkpoint, on the mean", unsaved_s),
        )

    def stall_s(self, down_s: float) -> float | None:
        """How long traffic stops when a link is down for a time: until the first try after that; None: the job dies."""
        each_s = LOCAL_TIMEOUT_S * 2.0**self.ib_timeout
        return None if down_s > self.abort_s else min(math.ceil(down_s / each_s) * each_s, self.abort_s)

    @property
    def abort_s(self) -> float:
        """Time from the first unacknowledged packet to the abort of the communicator."""
        retries_s = LOCAL_TIMEOUT_S * 2.0**self.ib_timeout * max(self.ib_retries, 1)
        return min(retries_s, self.watchdog_s)
