"""Collectives of 1,024 ranks by symmetry: finish, bound, sends and CPU on a Clos and on rails; a row a collective.

python benchmarks/synthesis.py [--ranks 1024] [--size "256 MB"] [--network clos|rails] [--collective NAME] [--slow]:
every schedule found is checked symbolically, image by image. `--slow`: one link of the network keeps half its rate, the
symmetry is broken there, and schedules are repaired. Networks of ranks that keep these rules: `rails` has domains of 8
at 450 GB/s a rank and a NIC of 50 GB/s and 5 us each, on units of 32 servers with a leaf for each rail, under 32
spines; `clos` has leaves of 32 ranks with such NICs under 32 spines. Sizes are those of a rank.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from railyard.collective.synthesis.collectives import collectives
from railyard.collective.synthesis.network import LinkNetwork, build
from railyard.collective.synthesis.search import synthesize
from railyard.kit import quantities

HOSTS, SPINES, DOMAIN = 32, 32, 8
SCALE_UP, NIC = (450.0, 0.5), (50.0, 5.0)
HOP_US = 0.5


def clos(ranks: int) -> LinkNetwork:
    """Ranks under leaves, leaves under spines; all links as fast as a NIC."""
    leaf_of = [ranks + rank // HOSTS for rank in range(ranks)]
    return _under(ranks, [], leaf_of)


def rails(ranks: int) -> LinkNetwork:
    """Domains of ranks whose NICs have a leaf for each rail in each unit of domains."""
    first = ranks + ranks // DOMAIN
    links = []
    for rank in range(ranks):
        domain = ranks + rank // DOMAIN
        links += [(rank, domain, *SCALE_UP), (domain, rank, SCALE_UP[0], 0.0)]
    leaf_of = [first + rank // (DOMAIN * HOSTS) * DOMAIN + rank % DOMAIN for rank in range(ranks)]
    return _under(ranks, links, leaf_of)


NETWORKS = {"clos": clos, "rails": rails}


def _under(ranks: int, links: list[tuple[int, int, float, float]], leaf_of: list[int]) -> LinkNetwork:
    """With NICs to leaves, and leaves to all spines; switches pass on packets."""
    for rank, leaf in enumerate(leaf_of):
        links += [(rank, leaf, *NIC), (leaf, rank, NIC[0], HOP_US)]
    spines = range(max(leaf_of) + 1, max(leaf_of) + 1 + SPINES)
    for leaf in sorted(set(leaf_of)):
        for spine in spines:
            links += [(leaf, spine, NIC[0], HOP_US), (spine, leaf, NIC[0], HOP_US)]
    return replace(build(links, list(range(ranks, spines[-1] + 1))), packets=True)


def slowed(network: LinkNetwork) -> LinkNetwork:
    """The NIC of rank 3 sends at half its rate."""
    rate = network.bytes_per_us.copy()
    rate[[link for link in network.out[3] if network.bytes_per_us[link] == NIC[0] * 1e3]] /= 2
    return replace(network, bytes_per_us=rate)


def row(name: str, network: LinkNetwork, collective: str, size: float) -> str:
    """Of the table."""
    begin = time.process_time()
    found = synthesize(network, collective, size)
    took, begin = time.process_time() - begin, time.process_time()
    wrong = found.faults()
    checked = time.process_time() - begin
    gap = found.finish_us / found.lower_bound_us - 1
    return (
        f"| {name} | {collective} | {found.finish_us:,.1f} | {found.lower_bound_us:,.1f} | {gap:.2%} | {found.cut} |"
        f" {found.sends / 1e6:,.1f} M | {took:.1f} | {checked:.1f} | {wrong[0] if wrong else 'sound'} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--size", default="256 MB")
    parser.add_argument("--network", choices=NETWORKS, action="append")
    parser.add_argument("--collective", choices=list(collectives), action="append")
    parser.add_argument("--slow", action="store_true", help="one NIC sends at half its rate")
    given = parser.parse_args()
    print("| network | collective | finish us | bound us | gap | pieces | sends | search s | check s | |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in given.network or NETWORKS:
        network = NETWORKS[name](given.ranks)
        if given.slow:
            network = slowed(network)
        for collective in given.collective or collectives:
            print(row(name, network, collective, quantities.size(given.size)), flush=True)


if __name__ == "__main__":
    main()
