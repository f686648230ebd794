"""Two spines against four of half the links each, on RoCE: what two failures at once and congestion do to pauses.

python examples/packet/spines.py [--spines 2 4] [--leaves 8] [--uplinks 4] [--size "250 kB"] [--seeds 5]
    [--balance ecmp] [--json]

32 hosts at 400 Gb/s under 8 leaves of 4 uplinks each, whatever the number of spines. Every host sends 250 kB to every
other at once, and 16 hosts 250 kB more to one host of leaf 0. What is dead is dead from the start, and routes know.
Juniper suggests four spines or more in its validated design for AI: with two, under certain dual failures and
congestion, its fabric became susceptible to PFC storms
(juniper.net/documentation/us/en/software/jvd/jvd-ai-dc-apstra-nvidia-weka/recommendations.html).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet import Traffic, leaf_spine, run
from railyard.engine.packet.faults import both_ways, down, of_node
from railyard.kit import quantities
from railyard.work.scenario.packet import fabric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.packet import PacketNetwork

RATE_BPS = 400 * 10**9
INCAST = 16

NONE = "nothing"
TWO_UPLINKS = "two uplinks of leaf 0"
TWO_LEAVES = "an uplink of leaf 0, one of leaf 1"
SPINE_UPLINK = "a spine, and an uplink of leaf 0"
HALF_UPLINK = "half the spines, and an uplink of leaf 0"
FAILURES = (NONE, TWO_UPLINKS, TWO_LEAVES, SPINE_UPLINK, HALF_UPLINK)
HEADING = (
    f"{'dead':41}spines      paused  links of switches  of hosts   longest  victims' time          of seeds  last flow"
)


@dataclass(frozen=True)
class Found:
    """What a run gave.

    Attributes:
        paused_ms: Time stopped, summed over links.
        switch_links: Links between switches that were stopped: how far pauses spread beyond hosts.
        host_links: Links of hosts into their leaf that were stopped.
        longest_us: Longest time that a link was stopped without a break.
        victim_ms: Time that packets stood behind stopped ports for a queue that they did not go to, summed.
        slowest_us: Completion of the last flow.
    """

    paused_ms: float
    switch_links: float
    host_links: float
    longest_us: float
    victim_ms: float
    slowest_us: float


@dataclass(frozen=True)
class Design:
    """A fabric whose links and rates are the same in all, whatever the number of its spines.

    Attributes:
        spines: A divisor of `uplinks`.
        leaves: Two at least.
        uplinks: Of a leaf, as many as it has hosts.
    """

    spines: int
    leaves: int = 8
    uplinks: int = 4

    @property
    def hosts(self) -> int:
        """Of all leaves."""
        return self.leaves * self.uplinks

    @property
    def cables(self) -> int:
        """Between a leaf and a spine."""
        return self.uplinks // self.spines

    def network(self) -> PacketNetwork:
        """Its links and routes."""
        return leaf_spine(
            self.hosts, leaf_hosts=self.uplinks, spines=self.spines, rate_bps=RATE_BPS, cables=self.cables
        )

    def uplink(self, network: PacketNetwork, leaf: int, number: int) -> list[int]:
        """Both directions of an uplink of a leaf; its first uplinks go to spine 0."""
        spine, cable = divmod(number, self.cables)
        both = both_ways(network, self.hosts + leaf, self.hosts + self.leaves + spine)
        return [int(link) for link in both.reshape(2, self.cables)[:, cable]]

    def dead(self, network: PacketNetwork, failure: str) -> list[int]:
        """The links that a failure takes."""
        last = self.uplink(network, 0, self.uplinks - 1)
        if failure == NONE:
            return []
        if failure == TWO_UPLINKS:
            return self.uplink(network, 0, 0) + self.uplink(network, 0, 1)
        if failure == TWO_LEAVES:
            return last + self.uplink(network, 1, self.uplinks - 1)
        first = self.hosts + self.leaves
        gone = range(first, first + (1 if failure == SPINE_UPLINK else self.spines // 2))
        return last + [int(link) for spine in gone for link in of_node(network, spine)]

    def traffic(self, size_bytes: int, seed: int) -> Traffic:
        """All to all, and an incast, flows of one size; the seed draws who sends it, and to which host of leaf 0."""
        draw = np.random.default_rng(seed)
        source, target = np.nonzero(~np.eye(self.hosts, dtype=bool))
        senders = draw.choice(np.arange(self.uplinks, self.hosts), INCAST, replace=False)
        root = np.full(INCAST, draw.integers(self.uplinks))
        return Traffic.of(self.hosts, np.concatenate([source, senders]), np.concatenate([target, root]), size_bytes)


def found(design: Design, failure: str, seed: int, size_bytes: int = 250_000, balance: str = "ecmp") -> Found:
    """One run of `roce`; with another balance than `ecmp` NICs take packets in any order."""
    network = design.network()
    settings = replace(
        fabric("roce").settings,
        load_balancing=balance,
        rdma_out_of_order=balance != "ecmp",
        seed=seed,
        faults=tuple(down(design.dead(network, failure), 0)),
    )
    record = run(network, design.traffic(size_bytes, seed), settings)
    links = record.table("links")
    stopped: NDArray[np.bool_] = links["paused_ps"] > 0
    of_host = network.link_source < design.hosts
    return Found(
        paused_ms=float(links["paused_ps"].sum()) / 1e9,
        switch_links=int((stopped & ~of_host).sum()),
        host_links=int((stopped & of_host).sum()),
        longest_us=float(links["longest_pause_ps"].max()) / 1e6,
        victim_ms=float(record.column("victim_ps").sum()) / 1e9,
        slowest_us=float(record.duration_ps.max()) / 1e6,
    )


def middle(runs: list[Found]) -> Found:
    """The median of each figure."""
    return Found(**{one.name: float(median(getattr(run, one.name) for run in runs)) for one in fields(Found)})


def bytes_of(text: str) -> int:
    """A size with its unit, such as `250 kB`, for the command line."""
    try:
        return quantities.size(text)
    except quantities.UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def given() -> argparse.Namespace:
    """The command line."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--spines", type=int, nargs="+", default=[2, 4])
    words.add_argument("--leaves", type=int, default=8)
    words.add_argument("--uplinks", type=int, default=4, help="of a leaf, and its hosts")
    words.add_argument("--size", type=bytes_of, default="250 kB", help="of a flow")
    words.add_argument("--seeds", type=int, default=5)
    words.add_argument("--balance", default="ecmp", choices=["ecmp", "flowlet", "adaptive", "spray"])
    words.add_argument("--json", action="store_true")
    line = words.parse_args()
    if min(line.spines) < 2 or any(line.uplinks % spines for spines in line.spines):
        words.error(f"--spines: 2 or more, each a divisor of the {line.uplinks} uplinks of a leaf")
    if (line.leaves - 1) * line.uplinks < INCAST:
        words.error(f"--leaves: {INCAST} hosts must be outside leaf 0, for the incast")
    if line.seeds < 1:
        words.error("--seeds: 1 or more")
    return line


def main() -> None:
    """Prints the median over seeds of every failure and design, and the range of the victims' time."""
    words = given()
    if not words.json:
        print(HEADING)
    for failure, spines in product(FAILURES, words.spines):
        if failure == HALF_UPLINK and spines < 4:
            continue  # of two or three spines half is one: the failure before
        design = Design(spines, words.leaves, words.uplinks)
        runs = [found(design, failure, seed, words.size, words.balance) for seed in range(words.seeds)]
        if words.json:
            rows = [{"seed": seed, **asdict(one)} for seed, one in enumerate(runs)]
            print(json.dumps({"dead": failure, "spines": spines, "runs": rows}))
        else:
            print(row(failure, spines, runs))


def row(failure: str, spines: int, runs: list[Found]) -> str:
    """A row of the table."""
    mid, victims = middle(runs), [one.victim_ms for one in runs]
    links = f"{mid.paused_ms:9.2f} ms{mid.switch_links:19.0f}{mid.host_links:10.0f}{mid.longest_us:7.0f} us"
    of_seeds = f"{min(victims):9.2f} to {max(victims):7.2f}"
    return f"{failure:41}{spines:6}{links}{mid.victim_ms:12.2f} ms{of_seeds}{mid.slowest_us:8.0f} us"


if __name__ == "__main__":
    main()
