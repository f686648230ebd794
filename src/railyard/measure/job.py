"""Scales one step to the whole job: checkpoints, failures, restarts, goodput.

With exponentially distributed interruptions of mean time M, restarts of R, a checkpoint stall of d after every t of
work, work T is done after (Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS
22, 2006, eq. 20)

    wall = M exp(R/M) (exp((t + d)/M) - 1) T / t

Goodput = T / wall. The best interval is Daly's perturbation solution (eq. 37): with x = d / (2 M),
t = sqrt(2 d M) (1 + sqrt(x)/3 + x/9) - d, and t = M when d > 2 M; Young's sqrt(2 d M) is its first term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from railyard.catalog import Range
from railyard.kit.errors import InputError
from railyard.measure.result.step import JobTimeFigures

_HOUR_S = 3600.0
_MTBF_H = Range(8 * 1000 / 6.50 * 24, 54 * 24 * 16_384 / 419, 8 * 1000 / 2.34 * 24)
_RESTART_S = Range(374.0, 900.0, 1500.0)
_LONGEST_EXPONENT = 30.0
"""e^30 is 10^13: a job that fails this often would never end in practice."""

USUAL_INTERVAL_S = 1800.0
"""Interval of checkpoints that do not stall the job if none is given: half an hour, an assumption."""


@dataclass(frozen=True)
class Reliability:
    """Failure rate of a job, and the cost of an interruption.

    The defaults: 54 days of Llama 3 405B on 16,384 H100 with 419 unexpected interruptions (Llama 3 Herd of Models,
    table 5) make 50,675 h for one accelerator; low and high are the failure rates of Meta's RSC-1 and RSC-2, 6.50 and
    2.34 per 1,000 days of an 8-GPU server (arXiv 2410.21680). A restart is low at the warm-up of MLPerf Training v5.0
    logs (374 s at 8,192 GPUs), typical at the 15 min within which MegaScale resumes, high with its 10 min of
    detection and diagnosis before that (NSDI 2024).

    Attributes:
        mtbf_h: Mean time between interruptions caused by one accelerator and its share of everything else, hours. Its
            `low`
            value fails most often.
        restart_s: Time from an interruption to the first step after it, without the repeated work, seconds.
    """

    mtbf_h: Range = _MTBF_H
    restart_s: Range = _RESTART_S


@dataclass(frozen=True)
class Checkpointing:
    """Checkpoints of a job.

    Attributes:
        stall_s: How long a checkpoint stalls the job; 0 if it is written entirely in the background.
        write_s: Time until it is safe; a shorter interval is not possible.
        interval_s: Work between checkpoints; None takes the best one.
        read_s: Time to load it at a restart.
        lost_s: Work between states that a restart can return to, if copies in other hosts' memory make it less than the
            interval; None: the interval.
    """

    stall_s: float = 0.0
    write_s: float = 0.0
    interval_s: float | None = None
    read_s: float = 0.0
    lost_s: float | None = None


@dataclass(frozen=True)
class JobTime:
    """Duration of a job.

    Attributes:
        seconds: Expected time from start to end, including interruptions.
        fault_s: Time lost to the faults that a scenario gives.
        goodput: Share of the time spent on steps that count.
        mtbf_s: Mean time between interruptions of the whole job; infinite if nothing fails.
        best_interval_s: The interval that minimizes the duration; None if a checkpoint does not stall the job.
        best_goodput: Goodput with that interval, or the job's own if there is none.
    """

    tokens: float
    steps: int
    seconds: float
    checkpoint_s: float
    restart_s: float
    fault_s: float
    goodput: float
    interruptions: float
    mtbf_s: float
    interval_s: float
    best_interval_s: float | None = None
    best_goodput: float | None = None

    def section(self) -> JobTimeFigures:
        """The result's `jct`."""
        return JobTimeFigures(
            tokens=self.tokens,
            steps=self.steps,
            seconds=self.seconds,
            checkpoint_s=self.checkpoint_s,
            restart_s=self.restart_s,
            fault_s=self.fault_s,
            goodput=self.goodput,
            interruptions=self.interruptions,
            mtbf_h=self.mtbf_s / _HOUR_S,
            checkpoint_interval_s=self.interval_s,
            best_checkpoint_interval_s=self.best_interval_s,
            best_goodput=self.best_goodput,
        )


def best_interval_s(stall_s: float, mtbf_s: float) -> float:
    """Work between checkpoints that minimizes the job's duration, seconds (Daly's equation 37).

    Args:
        stall_s: Above 0.
        mtbf_s: Mean time between interruptions of the whole job, above 0.
    """
    if stall_s >= 2 * mtbf_s:
        return mtbf_s
    x = stall_s / (2 * mtbf_s)
    return math.sqrt(2 * stall_s * mtbf_s) * (1 + math.sqrt(x) / 3 + x / 9) - stall_s


def expected_wall_s(work_s: float, *, interval_s: float, stall_s: float, mtbf_s: float, restart_s: float) -> float:
    """Expected time until `work_s` of work is done (Daly's equation 20).

    Raises:
        InputError: Interruptions are so frequent that the job would never end.
    """
    if interval_s + stall_s + restart_s > _LONGEST_EXPONENT * mtbf_s:
        saves = f", saves its state every {interval_s:.3g} s"
        raise _endless(mtbf_s, interval_s + stall_s + restart_s, f"{saves} and restarts in {restart_s:.3g} s")
    return mtbf_s * math.exp(restart_s / mtbf_s) * math.expm1((interval_s + stall_s) / mtbf_s) * work_s / interval_s


def check_ends(accelerators: int, mtbf_h: float, restart_s: float) -> None:
    """Rejects a job that never ends however short its steps are, because it fails again during each restart.

    Raises:
        InputError: The job would never end.
    """
    mtbf_s = mtbf_h * _HOUR_S / accelerators
    if restart_s > _LONGEST_EXPONENT * mtbf_s:
        raise _endless(mtbf_s, restart_s, f" and restarts in {restart_s:.3g} s")


def _endless(mtbf_s: float, cycle_s: float, how: str) -> InputError:
    return InputError(
        f"the job would never end: it is interrupted every {mtbf_s:.3g} s on average{how}",
        key="economics.mtbf",
        found=f"{mtbf_s:.3g} s for the whole job",
        allowed=f"at least {cycle_s / _LONGEST_EXPONENT:.3g} s for the whole job",
        hint="save more often, restart faster, or raise the mean time between failures",
    )


def job_time(
    *,
    tokens: float,
    tokens_per_step: float,
    step_s: float,
    accelerators: int,
    checkpointing: Checkpointing | None = None,
    mtbf_h: float | None = None,
    restart_s: float | None = None,
    lost_s: float = 0.0,
) -> JobTime:
    """Duration of a job on a number of accelerators.

    Args:
        tokens: Budget, above 0.
        tokens_per_step: Above 0.
        step_s: Mean step time.
        accelerators: All accelerators of the job; each can fail.
        checkpointing: Its checkpoints; None: in the background, every half hour.
        mtbf_h: Mean time between interruptions per accelerator, hours; None takes `Reliability`'s typical value.
        restart_s: Time of one restart; None takes `Reliability`'s typical value.
        lost_s: Time lost once to given faults; failures drawn by rate are counted elsewhere.

    Raises:
        InputError: Interruptions are so frequent that the job would never end.
    """
    saves, usual = checkpointing or Checkpointing(), Reliability()
    mtbf_s = (usual.mtbf_h.typical if mtbf_h is None else mtbf_h) * _HOUR_S / accelerators
    restart = usual.restart_s.typical if restart_s is None else restart_s
    # Published restart times include loading; a slow storage system makes a restart longer than that.
    restart = max(restart, usual.restart_s.low + saves.read_s if saves.read_s else 0.0)
    steps = math.ceil(tokens / tokens_per_step)
    work_s = steps * step_s
    interval = min(_interval_s(saves, mtbf_s), work_s)

    def wall(interval_s: float) -> float:
        lost = interval_s if saves.lost_s is None else min(saves.lost_s, interval_s)
        stall = saves.stall_s * lost / interval_s
        return expected_wall_s(work_s, interval_s=lost, stall_s=stall, mtbf_s=mtbf_s, restart_s=restart)

    wall_s = wall(interval) + lost_s
    stalls_s = work_s / interval * saves.stall_s
    best = min(_best_s(saves, mtbf_s), work_s) if saves.stall_s > 0 and saves.lost_s is None else None
    return JobTime(
        tokens=tokens,
        steps=steps,
        seconds=wall_s,
        checkpoint_s=stalls_s,
        restart_s=max(wall_s - lost_s - work_s - stalls_s, 0.0),
        fault_s=lost_s,
        goodput=work_s / wall_s,
        interruptions=(wall_s - lost_s) / mtbf_s,
        mtbf_s=mtbf_s,
        interval_s=interval,
        best_interval_s=best,
        best_goodput=work_s / (wall_s if best is None else wall(best) + lost_s),
    )


def _best_s(saves: Checkpointing, mtbf_s: float) -> float:
    """The best interval that is long enough to write a checkpoint."""
    return max(best_interval_s(saves.stall_s, mtbf_s), saves.write_s)


def _interval_s(saves: Checkpointing, mtbf_s: float) -> float:
    if saves.interval_s is not None:
        return saves.interval_s
    return _best_s(saves, mtbf_s) if saves.stall_s > 0 else max(USUAL_INTERVAL_S, saves.write_s)
