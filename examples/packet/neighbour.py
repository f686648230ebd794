"""The noisy and the hostile neighbour on six fabrics: what another tenant does to a step, and what helps against it.

python examples/packet/neighbour.py [--fabrics roce uec ...] [--seeds 3] [--storm 2000] [--watchdog 500]
                                    [--report neighbour.html] [--json]

Two tenants of 16 hosts each share 4 leaves and 4 spines at 400 Gb/s (8 hosts a leaf: 2:1). The victim's step is eight
rounds of 1 MB from each of its hosts to another leaf, each round after what came in the round before; its 16 hosts
alone just fill the uplinks. Its neighbour, on the other ports of the same leaves,

  incast    12 hosts send 4 MB each to one of its own hosts
  storm     the same, and the NIC of that host takes in a hundredth of its rate for 2 ms (a sick NIC that pauses;
            --storm gives the microseconds)
  deaf      12 hosts send 2 MB to each of 2 hosts and heed no mark, no delay, no trimmed packet
  flood     all 16 hosts send 64 flows of 128 kB each to other leaves, over all spines

Against it: a class with queues of its own (equal weights), NICs that send at a quarter of their rate, switches of
one's own (dedicated rails), and a watchdog that after 500 us (--watchdog) drops what is for a port that is paused.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet import Traffic, crossbar, leaf_spine, run
from railyard.engine.packet.faults import LinkFault, down
from railyard.work.scenario.packet import fabric

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.engine.packet import PacketNetwork, Settings

RATE_BPS = 400 * 10**9
LEAVES, LEAF_HOSTS, SPINES = 4, 8, 4
HOSTS = LEAVES * LEAF_HOSTS
HALF = LEAF_HOSTS // 2
ROUNDS, ROUND_BYTES = 8, 1_000_000
US = 10**6
STORM_US, WATCHDOG_US, SICK = 2_000, 500, 0.01
LIMIT = 0.25
FABRICS = ("roce", "infiniband", "spectrum-x", "uec", "scheduled", "ideal")
ATTACKS = ("incast", "storm", "deaf", "flood")
WITHOUT, CLASS, SHARE, RAILS, WATCHDOG = "nothing", "own class", "sends at 25 %", "own switches", "watchdog"

WHY = {
    "incast": "Packets for one host fill its queue; where switches pause or hold credits back, they stand in queues"
    " before it too, and the victim's behind them. Where packets are trimmed, or wait at their ingress for credit of"
    " their egress (scheduled), only those for that host wait.",
    "storm": "A NIC that does not take packets is an incast without an end: pauses and missing credits run back to"
    " every sender through it, and stop ports that are not its own. What trims or grants credit does not pass it on.",
    "deaf": "Controls share a link by senders who slow down. One who does not keeps its rate, and the others make room;"
    " with pauses the queue of its target stands in uplinks too. Trimming bounds queues, but not its share.",
    "flood": "Uplinks are shared by flows: with as many bytes of others on them as they carry, a step takes twice as"
    " long even with perfect balance. Hashing makes some links worse, spraying makes all alike.",
}


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes:
        fabric: Its name.
        attack: One of `ATTACKS`; empty: the victim alone.
        against: What helps.
        storm_us: How long a NIC is sick.
        watchdog_us: After which a watchdog acts; not where the storm is over before.
    """

    fabric: str
    attack: str = ""
    against: str = WITHOUT
    storm_us: int = STORM_US
    watchdog_us: int = WATCHDOG_US


@dataclass(frozen=True)
class Found:
    """What the victim saw.

    Attributes:
        case: Of which run.
        p99_us: Completion of its flows, 99th percentile, nearest rank.
        step_us: When its last flow was done; of a run that never ends, infinity.
        paused_ms: Time that links were stopped, summed.
    """

    case: Case
    p99_us: float
    step_us: float
    paused_ms: float


def victims(hosts: int = HOSTS) -> np.ndarray:
    """Hosts of the victim: the first half of each leaf."""
    each = LEAF_HOSTS if hosts == HOSTS else HALF
    return np.array([host for host in range(hosts) if host % each < HALF])


def neighbours() -> np.ndarray:
    """Hosts of its neighbour."""
    return np.array([host for host in range(HOSTS) if host % LEAF_HOSTS >= HALF])


def step(mine: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int]]]:
    """Sources and targets of the step's flows, and which waits for which: a host sends when it has received."""
    many = len(mine)
    place = np.arange(many)
    source, target, waits = [], [], []
    came = place
    for number in range(ROUNDS):
        shift = HALF * (1 + number % (LEAVES - 1)) + number % HALF  # to another leaf, each round to another host
        to = (place + shift) % many
        source.append(mine[place])
        target.append(mine[to])
        if number:
            waits += [(number * many + at, (number - 1) * many + int(came[at])) for at in range(many)]
        came = np.argsort(to)  # the flow of this round that ends at each place
    return np.concatenate(source), np.concatenate(target), waits


def attack(name: str) -> tuple[np.ndarray, np.ndarray, int, bool]:
    """Sources, targets and size of the neighbour's flows, and whether they heed nothing."""
    theirs = neighbours()
    far = theirs[theirs >= LEAF_HOSTS]
    if name in ("incast", "storm"):
        return far, np.full(len(far), theirs[0]), 4_000_000, False
    if name == "deaf":
        return np.repeat(far, 2), np.tile(theirs[:2], len(far)), 2_000_000, True
    draw = np.random.default_rng(1)
    source = np.repeat(theirs, 64)
    leaf = (source // LEAF_HOSTS + draw.integers(1, LEAVES, len(source))) % LEAVES
    return source, leaf * LEAF_HOSTS + HALF + draw.integers(0, HALF, len(source)), 128_000, False


def traffic(case: Case, seed: int = 0) -> tuple[Traffic, int]:
    """All flows, and how many are the victim's."""
    own = case.against == RAILS
    source, target, waits = step(victims(HOSTS // 2 if own else HOSTS))
    mine = len(source)
    size, deaf, klass = np.full(mine, ROUND_BYTES), np.zeros(mine, np.uint8), np.zeros(mine, np.uint8)
    if case.attack and not own:
        more, to, each, is_deaf = attack(case.attack)
        source, target = np.concatenate([source, more]), np.concatenate([target, to])
        size = np.concatenate([size, np.full(len(more), each)])
        deaf = np.concatenate([deaf, np.full(len(more), is_deaf, np.uint8)])
        klass = np.concatenate([klass, np.full(len(more), int(case.against == CLASS), np.uint8)])
    flows = Traffic.of(HOSTS // 2 if own else HOSTS, source, target, size, klass=klass)
    flow, before = np.array(waits).T
    keys = np.random.default_rng(seed).integers(
        0, 2**32, len(flows), np.uint32
    )  # the victim's are the same in all runs
    return replace(flows.after(flow, before, at=1), deaf=deaf, path_key=keys), mine


def network(case: Case) -> PacketNetwork:
    """The network that both share, or the victim's own half of it."""
    hosts, each, spines = (HOSTS // 2, HALF, SPINES) if case.against == RAILS else (HOSTS, LEAF_HOSTS, SPINES)
    if case.fabric == "ideal":
        return crossbar(hosts, rate_bps=RATE_BPS)
    return leaf_spine(hosts, leaf_hosts=each, spines=spines // (2 if case.against == RAILS else 1), rate_bps=RATE_BPS)


def settings(case: Case, net: PacketNetwork, seed: int) -> Settings:
    """The fabric's, with what the attack breaks and what helps."""
    given = replace(fabric(case.fabric).settings, seed=seed)
    if case.against == CLASS:
        given = replace(given, **queues(given.switching))
    faults: list[LinkFault] = []
    if case.attack and case.against == SHARE:
        theirs = np.isin(net.link_source, neighbours())
        faults += [LinkFault(0, int(link), "rate", LIMIT) for link in np.flatnonzero(theirs)]
    if case.attack == "storm" and case.against != RAILS:
        sick = int(np.flatnonzero(net.link_target == neighbours()[0])[0])
        faults.append(LinkFault(0, sick, "rate", SICK))
        if case.against == WATCHDOG and case.watchdog_us < case.storm_us:
            faults += down([sick], case.watchdog_us * US)
        else:
            faults.append(LinkFault(case.storm_us * US, sick, "rate", 1.0))
    return replace(given, faults=tuple(sorted(faults, key=lambda one: one.at_ps)), end_ps=20_000 * US)


def queues(switching: str) -> dict[str, object]:
    """Settings that give two classes queues with equal weights; nothing where a fabric has one queue for all."""
    if switching == "pfc":
        return {"pfc_weights": [16, 16, 0, 0, 0, 0, 0, 0]}
    return {"link_credit_lanes": 2} if switching == "credit" else {}


def found(case: Case, seeds: int = 1) -> Found:
    """The median of runs with other hashes and other draws."""
    runs = [once(case, seed) for seed in range(seeds)]
    p99, step_us, paused = (float(np.median(column)) for column in zip(*runs, strict=True))
    return Found(case, p99, step_us, paused)


def once(case: Case, seed: int) -> tuple[float, float, float]:
    """One run: 99th percentile and step in microseconds, pauses in milliseconds; without an end, infinity."""
    net = network(case)
    flows, mine = traffic(case, seed)
    record = run(net, flows, settings(case, net, seed))
    if np.any(record.end_ps[:mine] < 0):
        return np.inf, np.inf, np.inf
    took = np.sort(record.duration_ps[:mine])
    p99 = took[int(np.ceil(0.99 * mine)) - 1]
    links = record.table("links")
    paused = float(links["paused_ps"].sum()) / 1e9 if "paused_ps" in links else 0.0
    return float(p99) / US, float(record.end_ps[:mine].max()) / US, paused


def cases(fabrics: Sequence[str]) -> Iterator[Case]:
    """All that are compared."""
    for name in fabrics:
        switching = fabric(name).settings.switching
        yield Case(name)
        yield Case(name, "", RAILS)
        for how in ATTACKS:
            yield Case(name, how)
            if queues(switching) and name != "ideal":
                yield Case(name, how, CLASS)
            yield Case(name, how, SHARE)
            if how == "storm" and switching == "pfc":
                yield Case(name, how, WATCHDOG)


def table(rows: Sequence[Found]) -> Iterator[str]:
    """One line per run."""
    yield f"{'fabric':12}{'neighbour':10}{'against it':18}{'p99 FCT':>12}{'step':>12}{'of alone':>10}{'paused':>12}"
    alone = {row.case.fabric: row.step_us for row in rows if not row.case.attack and row.case.against == WITHOUT}
    for row in rows:
        case = row.case
        times = "never" if np.isinf(row.step_us) else f"{row.step_us:.0f} us"
        late = "-" if np.isinf(row.p99_us) else f"{row.p99_us:.0f} us"
        ratio = "-" if np.isinf(row.step_us) else f"{row.step_us / alone[case.fabric]:.2f} x"
        what = f"{case.fabric:12}{case.attack or 'none':10}{case.against:18}"
        yield f"{what}{late:>12}{times:>12}{ratio:>10}{row.paused_ms:>9.2f} ms"


COLOURS = {WITHOUT: "#b3261e", CLASS: "#1f6feb", SHARE: "#8250df", RAILS: "#1a7f37", WATCHDOG: "#bf8700"}
WIDE, HIGH, MOST = 900, 15, 12.0


def picture(rows: Sequence[Found], how: str) -> str:
    """Bars of the victim's step over its step alone, by fabric and by what helps."""
    alone = {row.case.fabric: row.step_us for row in rows if not row.case.attack and row.case.against == WITHOUT}
    bars, y = [], 8
    for name in dict.fromkeys(row.case.fabric for row in rows):
        bars.append(f'<text x="0" y="{y + 12}" font-weight="bold">{escape(name)}</text>')
        for row in rows:
            rails = row.case.against == RAILS and not row.case.attack
            if row.case.fabric != name or not (row.case.attack == how or rails):
                continue
            ratio = row.step_us / alone[name]
            long = min(ratio, MOST) / MOST * (WIDE - 340)
            words = f"{ratio:.2f} x" if np.isfinite(ratio) else "never ends"
            bars.append(
                f'<rect x="100" y="{y}" width="{long:.1f}" height="{HIGH - 3}" fill="{COLOURS[row.case.against]}"/>'
            )
            bars.append(f'<text x="{106 + long:.1f}" y="{y + 11}">{words} {escape(row.case.against)}</text>')
            y += HIGH
        y += 6
    return f'<svg viewBox="0 0 {WIDE} {y}" width="{WIDE}" font-family="sans-serif" font-size="11">{"".join(bars)}</svg>'


def page(rows: Sequence[Found]) -> str:
    """One page: each attack with its picture and its causes, then all figures."""
    parts = [f"<h2>{how}</h2><p>{escape(WHY[how])}</p>{picture(rows, how)}" for how in ATTACKS]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>The neighbour on six fabrics</title>'
        "<style>body{font:14px sans-serif;max-width:60em;margin:2em auto}pre{overflow:auto}</style>"
        f"<h1>The neighbour on six fabrics</h1><pre>{escape((__doc__ or '').split('[--json]')[1].strip())}</pre>"
        f"<p>Bars: the victim's step over its step alone, cut at {MOST:g}.</p>{''.join(parts)}"
        f"<h2>All figures</h2><pre>{escape(chr(10).join(table(rows)))}</pre></html>"
    )


def given() -> argparse.Namespace:
    """The command line."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--fabrics", nargs="+", default=list(FABRICS), choices=FABRICS)
    words.add_argument("--seeds", type=int, default=3, help="runs of each case, of which the median is given")
    words.add_argument("--storm", type=int, default=STORM_US, help="microseconds for which a NIC is sick")
    words.add_argument("--watchdog", type=int, default=WATCHDOG_US, help="microseconds after which it acts")
    words.add_argument("--report", type=Path, help="write one page with pictures there")
    words.add_argument("--json", action="store_true")
    line = words.parse_args()
    for name in ("seeds", "storm", "watchdog"):
        if getattr(line, name) < 1:
            words.error(f"--{name}: 1 or more")
    return line


def main() -> None:
    """Runs all cases, prints them, and writes the page."""
    words = given()
    times = {"storm_us": words.storm, "watchdog_us": words.watchdog}
    rows = [found(replace(case, **times), words.seeds) for case in cases(words.fabrics)]
    if words.json:
        plain = [
            {"fabric": one.case.fabric, "neighbour": one.case.attack, "against": one.case.against}
            | {"p99_us": one.p99_us, "step_us": one.step_us, "paused_ms": one.paused_ms}
            for one in rows
        ]
        print(json.dumps(plain).replace("Infinity", "null"))
    else:
        print("\n".join(table(rows)))
    if words.report is not None:
        words.report.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
