"""`llama3`: interruptions of Llama 3's pre-training.

419 unexpected interruptions of 16,384 H100 (2,048 nodes) in 54 days. Source of the counts: "The Llama 3 Herd of
Models",
arXiv 2407.21783, table 5. What each does to the job and how it is seen are assumptions, as are repair times, slow
nodes'
speed, and the rates of switches, of cables between switches and of racks (an annual failure rate of 2 %, 2 % and
0.4 %).
Cables between switches interrupted nothing there: the fabric led around them.
"""

from __future__ import annotations

from railyard.work.operate.failures.fault import (
    ERROR_S,
    HOURS,
    QUICK,
    REPAIR,
    SLOW_SEEN_S,
    TIMEOUT,
    Effect,
    FailureProfile,
    Mode,
    profiles,
)

SOURCE = "Llama 3, arXiv 2407.21783, table 5"
NODE_DAYS = 54 * 2048 / 1000


def _mode(
    name: str,
    count: int,
    effect: Effect = Effect.OUT,
    *,
    detect_s: float = ERROR_S,
    repair: tuple[float, float] = REPAIR,
    slow: float = 1.0,
    rerouted: bool = False,
) -> Mode:
    return Mode(name, count / NODE_DAYS, effect, detect_s, *repair, slow=slow, rerouted=rerouted, source=SOURCE)


MODES = (
    _mode("gpu", 148),
    _mode("hbm", 72),
    _mode("software", 54, Effect.CRASH),
    _mode("network cable", 35, detect_s=TIMEOUT, rerouted=True),
    _mode("host maintenance", 32, repair=QUICK),
    _mode("gpu sram", 19),
    _mode("gpu system processor", 17),
    _mode("nic", 7, detect_s=TIMEOUT, rerouted=True),
    _mode("watchdog", 7, Effect.CRASH, detect_s=TIMEOUT),
    _mode("silent corruption", 6, Effect.CORRUPT, detect_s=12 * HOURS),
    _mode("gpu thermal", 6, Effect.SLOW, detect_s=SLOW_SEEN_S, slow=0.7),
    _mode("ssd", 3),
    _mode("power supply", 3),
    _mode("chassis", 2),
    _mode("io board", 2),
    _mode("dependency", 2, Effect.CRASH),
    _mode("cpu", 2),
    _mode("system memory", 2),
)
ESTIMATED = "estimate: a share of them a year"
UPLINKS = 32
"""Of a leaf; each has optics at both ends."""
DOMAINS = (
    Mode("leaf switch", 1000 * 0.02 / 365, Effect.OUT, TIMEOUT, *QUICK, "leaf", rerouted=True, source=ESTIMATED),
    Mode("uplink", 1000 * 0.02 * UPLINKS / 365, Effect.STALL, 0.0, *QUICK, "leaf", source=ESTIMATED),
    Mode("rack power", 1000 * 0.004 / 365, Effect.OUT, ERROR_S, *QUICK, "leaf", source=ESTIMATED),
)
LLAMA3 = profiles.add(
    "llama3", FailureProfile("llama3", "Llama 3's pre-training: 16,384 H100 over 54 days.", (*MODES, *DOMAINS))
)
