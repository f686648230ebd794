"""Fabrics that are as irregular as real ones are, with what is odd about each."""

from __future__ import annotations

import random

from .fabrics import Drawn, leaf_spine, three_tier


def switches(drawn, kind, count):
    names = [f"{kind}{at}" for at in range(count)]
    drawn.kinds |= dict.fromkeys(names, "Switch")
    return names


def hosts(drawn, leafs, count, *, first=0, rate="4xNDR"):
    number = first
    for leaf in leafs:
        for _ in range(count):
            drawn.kinds[f"node{number:04d}"] = "Ca"
            drawn.join(f"node{number:04d}", leaf, rate=rate)
            number += 1
    return number


def mesh(drawn, lows, highs, times=1):
    for low in lows:
        for high in highs:
            drawn.join(low, high, times)


def storage_leaf():
    """One leaf has half of the trunks of the others, and hosts that are as fast: a storage leaf."""
    drawn = Drawn()
    spines, leafs = switches(drawn, "spine", 4), switches(drawn, "leaf", 12)
    number = hosts(drawn, leafs, 8)
    mesh(drawn, leafs, spines, 2)
    storage = switches(drawn, "storage", 1)
    hosts(drawn, storage, 8, first=number)
    mesh(drawn, storage, spines, 1)
    return drawn


def pods_of_two_sizes():
    """Three pods of four leafs, and one of two that waits for the rest."""
    drawn = Drawn()
    cores = switches(drawn, "core", 4)
    number = 0
    for pod, size in enumerate((4, 4, 4, 2)):
        spines, leafs = switches(drawn, f"p{pod}spine", 4), switches(drawn, f"p{pod}leaf", size)
        number = hosts(drawn, leafs, 6, first=number)
        mesh(drawn, leafs, spines)
        mesh(drawn, spines, cores)
    return drawn


def planes():
    """Four planes: NIC and leaf r of a host are in plane r, which has spines of its own."""
    drawn = Drawn()
    for plane in range(4):
        spines, leafs = switches(drawn, f"plane{plane}spine", 3), switches(drawn, f"plane{plane}leaf", 6)
        for at, leaf in enumerate(leafs):
            for host in range(6):
                name = f"node{at * 6 + host:04d} mlx5_{plane}"
                drawn.kinds[name] = "Ca"
                drawn.join(name, leaf)
        mesh(drawn, leafs, spines, 2)
    return drawn


def two_generations():
    """Eight leafs with four cables to each spine, six older ones with two."""
    drawn = Drawn()
    spines = switches(drawn, "spine", 4)
    new, old = switches(drawn, "leaf", 8), switches(drawn, "old", 6)
    number = hosts(drawn, new, 8)
    hosts(drawn, old, 8, first=number, rate="4xHDR")
    mesh(drawn, new, spines, 4)
    mesh(drawn, old, spines, 2)
    return drawn


def manager_on_a_spine():
    """The subnet manager's host hangs on a spine."""
    drawn = leaf_spine(8, 4, 8, 2)
    drawn.kinds["ufm01"] = "Ca"
    drawn.join("ufm01", "spine0")
    return drawn


def leafs_without_hosts():
    """Two leafs are cabled and wait for their racks."""
    drawn = leaf_spine(10, 4, 8, 2)
    for name in list(drawn.kinds):
        if name.startswith("node") and int(name[4:]) >= 64:
            for at in [n for n, cable in enumerate(drawn.cables) if cable and cable[0] == name]:
                drawn.cables[at] = []
    return drawn


def peer_links():
    """Neighbouring leafs are joined in pairs."""
    drawn = leaf_spine(8, 4, 6, 1)
    for at in range(0, 8, 2):
        drawn.join(f"leaf{at}", f"leaf{at + 1}", 2)
    return drawn


def unequal_hosts():
    """Racks of 3 to 11 hosts."""
    drawn = Drawn()
    spines, leafs = switches(drawn, "spine", 4), switches(drawn, "leaf", 8)
    mesh(drawn, leafs, spines, 2)
    number = 0
    for leaf, count in zip(leafs, (3, 11, 8, 8, 5, 8, 7, 8), strict=True):
        number = hosts(drawn, [leaf], count, first=number)
    return drawn


def two_fabrics():
    """Two fabrics in one file, of other shapes."""
    drawn = leaf_spine(8, 4, 8, 2)
    spines, leafs = switches(drawn, "bspine", 2), switches(drawn, "bleaf", 4)
    hosts(drawn, leafs, 8, first=500)
    mesh(drawn, leafs, spines, 3)
    return drawn


def core_groups():
    """Three tiers; the cores of group s only reach the spines s of all pods, by two cables."""
    return three_tier(4, 4, 3, 3, hosts=6, trunk=2)


def gateways():
    """Two gateways with two hosts each hang on the spines as a leaf does."""
    drawn = leaf_spine(10, 4, 12, 2)
    doors = switches(drawn, "gateway", 2)
    hosts(drawn, doors, 4, first=900)
    mesh(drawn, doors, [f"spine{at}" for at in range(4)], 2)
    return drawn


def uneven_spines():
    """A fifth spine was added with one cable to each leaf, where the others have two."""
    drawn = leaf_spine(8, 4, 8, 2)
    late = switches(drawn, "spine9", 1)
    mesh(drawn, [f"leaf{at}" for at in range(8)], late, 1)
    return drawn


def torus():
    """Four by four switches in a torus."""
    drawn = Drawn()
    switches(drawn, "sw", 16)
    hosts(drawn, [f"sw{at}" for at in range(16)], 4)
    for row in range(4):
        for column in range(4):
            drawn.join(f"sw{4 * row + column}", f"sw{4 * row + (column + 1) % 4}")
            drawn.join(f"sw{4 * row + column}", f"sw{4 * ((row + 1) % 4) + column}")
    return drawn


def dragonfly():
    """Five groups of four switches, all joined inside a group, one cable between two groups."""
    drawn = Drawn()
    groups = [switches(drawn, f"g{group}sw", 4) for group in range(5)]
    for group, mine in enumerate(groups):
        hosts(drawn, mine, 4, first=100 * group)
        for at, one in enumerate(mine):
            for other in mine[at + 1 :]:
                drawn.join(one, other)
    for group in range(5):
        for other in range(group + 1, 5):
            drawn.join(groups[group][(other - 1) % 4], groups[other][group % 4])
    return drawn


def random_graph():
    """Twenty switches with five cables each to random others."""
    drawn = Drawn()
    names = switches(drawn, "sw", 20)
    hosts(drawn, names, 4)
    dice = random.Random(3)
    for one in names:
        for other in dice.sample([name for name in names if name != one], 3):
            drawn.join(one, other)
    return drawn


def hypercube():
    """Sixteen switches, joined where their numbers differ in one digit."""
    drawn = Drawn()
    names = switches(drawn, "sw", 16)
    hosts(drawn, names, 4)
    for one in range(16):
        for digit in range(4):
            if one < one ^ (1 << digit):
                drawn.join(names[one], names[one ^ (1 << digit)])
    return drawn


FABRICS = {
    "storage leaf with half of the trunks": storage_leaf,
    "pods of two sizes": pods_of_two_sizes,
    "four planes": planes,
    "two generations of leafs": two_generations,
    "manager on a spine": manager_on_a_spine,
    "leafs that wait for hosts": leafs_without_hosts,
    "leafs joined in pairs": peer_links,
    "racks of 3 to 11 hosts": unequal_hosts,
    "two fabrics in one file": two_fabrics,
    "groups of cores, two cables a pair": core_groups,
    "gateways": gateways,
    "a late spine with fewer cables": uneven_spines,
    "eight rails": lambda: leaf_spine(16, 4, 8, 1, rails=8),
    "three cables a pair, small": lambda: leaf_spine(5, 3, 7, 3),
    "three tiers": lambda: three_tier(5, 5, 4, 4, hosts=5),
    "one spine": lambda: leaf_spine(6, 1, 8, 8),
    "torus": torus,
    "dragonfly": dragonfly,
    "random graph": random_graph,
    "hypercube": hypercube,
}
"""By what is odd about them; the last four are no fat trees."""
