"""Wrong settings of switches in shares of time.

Packets say how much longer the standard load takes (`standard_load`). A scenario's own step is then played by flows,
with cables at the wrong ports that carry as much less; without a scenario the job of reference waits so long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.audit.settings.standard_load import HOT, SENDERS, Rack, slower
from railyard.cluster.fabric import fabrics
from railyard.engine.packet.fabrics import constants_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.audit.design.infer import Design
    from railyard.ask.audit.network import Found
    from railyard.ask.audit.settings.setting import Setting
    from railyard.cluster.fabric import Fabric

CROWDED_SHARE = 0.2
"""Of the communication of a job that comes while ports are crowded: an assumption, given with every price."""

CROWDED = f"shifts with {SENDERS}-to-1 incasts on one port in {HOT}"


@dataclass(frozen=True)
class SettingPrice:
    """What settings of one switch cost.

    Attributes:
        loss: Share of the accelerators' time where `CROWDED_SHARE` of communication is crowded, in the mean of draws.
        band: Where none of it is, and where all of it is, in the worst draw.
        words: Engines and loads.
    """

    loss: float
    band: tuple[float, float]
    words: str


def rack_of(found: Found, design: Design, fabric: Fabric | None) -> Rack | None:
    """The rack that stands for a network: ports of its usual leaf; None where nothing of it can be set.

    Args:
        found: The network.
        design: The regular one behind it.
        fabric: What is played; None: `roce`, as switches whose configurations are read usually are.
    """
    played = fabrics.get("roce") if fabric is None else fabric
    constants = constants_of(played)
    if not len(found.access) or constants.get("switching") != "pfc":
        return None
    below = np.unique(found.access_ends[:, 0], return_counts=True)[1]
    first = [block for block in design.blocks if block.tier == 1]
    above = np.concatenate([block.meant.sum(axis=1) for block in first]) if first else np.zeros(1, np.int64)
    rate = int(found.rate_bps[found.access].max(initial=0)) or 400 * 10**9
    ports = int(np.median(below)), int(np.median(above))
    return Rack(tuple(sorted(constants.items())), *ports, rate, int(played.hop_latency_ps))


def priced(rack: Rack, settings: tuple[Setting, ...], loss: Callable[[float], float], load: str) -> SettingPrice:
    """By packets, and by what waits for them.

    Args:
        rack: What the standard load runs on.
        settings: Of one switch.
        loss: Of communication that takes so many times as long.
        load: What that is, in words.
    """
    even, crowded = slower(rack, settings, crowded=False), slower(rack, settings, crowded=True)
    mixed = (1.0 - CROWDED_SHARE) * even.mean + CROWDED_SHARE * crowded.mean
    quiet, busy, most = (loss(max(one, 1.0)) for one in (even.mean, mixed, crowded.high))
    words = (
        f"packets: {CROWDED} take {crowded.mean:.5g} times as long ({crowded.low:.3g} to {crowded.high:.3g} by the draw"
        f" of paths), even shifts {even.mean:.5g} times; {CROWDED_SHARE:.0%} of communication is taken as crowded, none"
        f" and all in the band; {load}"
    )
    return SettingPrice(busy, (min(quiet, busy), max(most, busy)), words)
