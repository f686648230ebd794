"""Traffic of collectives between servers, written down from the literature and not from Railyard's own tables.

Eight servers of eight accelerators, one NIC each, all rails alike. `between(name)[s, t]` is what one NIC of server s
sends to server t, in units of the collective's nccl-tests size.
"""

from __future__ import annotations

import numpy as np

SERVERS = 8
PER_SERVER = 8
RANKS = SERVERS * PER_SERVER

# In-order binary tree over 8 nodes (Sanders, Speck, Traff 2009; NCCL's), child: parent. The second is its mirror image.
TREE = {1: 2, 3: 2, 2: 4, 5: 6, 7: 6, 6: 4, 4: 0}


def _ring(passes):
    out = np.zeros((SERVERS, SERVERS))
    for server in range(SERVERS):
        out[server, (server + 1) % SERVERS] = passes
    return out


def _tree():
    out = np.zeros((SERVERS, SERVERS))
    for child, parent in TREE.items():
        for here, there in ((child, parent), (SERVERS - 1 - child, SERVERS - 1 - parent)):
            out[here, there] += 0.5
            out[there, here] += 0.5
    return out / PER_SERVER  # every channel, and so every NIC, has its part of the data


def _halving_doubling():
    out = np.zeros((SERVERS, SERVERS))
    for server in range(SERVERS):
        for bit in range(3):  # ranks first exchange a half, a quarter, an eighth inside the server
            out[server, server ^ (1 << bit)] = 2 / 2 ** (3 + bit + 1)
    return out


def _pairs():
    out = np.full((SERVERS, SERVERS), PER_SERVER / RANKS)  # a NIC sends for all eight senders of its server
    np.fill_diagonal(out, 0)
    return out


BETWEEN = {
    ("all-reduce", "ring"): _ring(2 * (RANKS - 1) / RANKS / PER_SERVER),
    ("all-gather", "ring"): _ring((RANKS - 1) / RANKS / PER_SERVER),
    ("reduce-scatter", "ring"): _ring((RANKS - 1) / RANKS / PER_SERVER),
    ("all-reduce", "hierarchical"): _ring(2 * (SERVERS - 1) / SERVERS / PER_SERVER),
    ("all-reduce", "tree"): _tree(),
    ("all-reduce", "halving-doubling"): _halving_doubling(),
    ("all-to-all", "pairwise"): _pairs(),
    ("all-to-all", "hierarchical-all-to-all"): _pairs(),
}


# What goes through a rank's scale-up links before or after the network, where the phases follow one another.
INSIDE = {
    ("all-reduce", "hierarchical"): 2 * 7 / 8,
    ("all-reduce", "halving-doubling"): 2 * (1 / 2 + 1 / 4 + 1 / 8),
    ("all-to-all", "hierarchical-all-to-all"): 7 / 8,
}


def nic(between):
    """The busiest NIC's bytes, the larger of both directions."""
    return max(between.sum(axis=1).max(), between.sum(axis=0).max())


def crossing(between, group_of):
    """The largest that leaves or enters one of the groups of servers, one NIC of each server."""
    group_of = np.asarray(group_of)
    worst = 0.0
    for group in np.unique(group_of):
        inside = group_of == group
        worst = max(worst, between[np.ix_(inside, ~inside)].sum(), between[np.ix_(~inside, inside)].sum())
    return worst


def on_a_circle(between):
    """The busiest one-way link when servers stand in a circle; halves of the longest way go both ways round."""
    load = np.zeros((2, SERVERS))
    for here in range(SERVERS):
        for there in range(SERVERS):
            apart = (there - here) % SERVERS
            for way, steps in ((0, apart), (1, SERVERS - apart)):
                if apart and steps <= SERVERS // 2:
                    part = between[here, there] * (0.5 if steps * 2 == SERVERS else 1.0)
                    for step in range(steps):
                        load[way, (here + step if way == 0 else here - step) % SERVERS] += part
    return load.max()
