"""Bundles: a network folded so that parallel links which a fabric loads alike become one link of their summed capacity.

The spines of a pod are alike for traffic that is sprayed, and so are all cores, and the planes of a multi-plane
network. Folding the network by these classes leaves a tree with one link up and one down per leaf and per pod:

    leaf --64 uplinks--> 64 spines --64--> leaf        becomes        leaf --1 bundle--> spines --1 bundle--> leaf

An evenly sprayed transfer crosses at most two bundles a tier in place of dozens of links, and the max-min fair rates
are exactly those of the unfolded network, because members of a bundle carry the same load as long as all are healthy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes
    from railyard.cluster.topology.wiring import Wiring


@dataclass(frozen=True, eq=False)
class Bundles:
    """The folded network.

    Attributes:
        routing: Routes over links and bundles; ids from `links` on are bundles.
        target: int32[links + bundles], the node to which each leads.
        bundle_of: int32[links], bundle of a link counted from 0, or -1 where the link has no parallel.
        sample: int64[bundles], the first member of each.
    """

    routing: Routes
    target: NDArray[np.int32]
    bundle_of: NDArray[np.int32]
    sample: NDArray[np.int64]


def fold(wiring: Wiring) -> Bundles | None:
    """Folds a network by the classes of its nodes; None when the topology says that this would not be exact."""
    if wiring.classes is None:
        return None
    classes = wiring.classes.astype(np.int64)
    near, far = classes[wiring.source], classes[wiring.target]
    _, sample, inverse, size = np.unique(
        near * wiring.nodes + far, return_index=True, return_inverse=True, return_counts=True
    )
    inverse = inverse.ravel()
    several = size > 1
    number = np.where(several, np.cumsum(several) - 1, -1)
    bundle_of = number[inverse].astype(np.int32)
    image = np.where(bundle_of >= 0, wiring.links + bundle_of, np.arange(wiring.links))
    sample = sample[several]
    target = classes[np.concatenate([wiring.target, wiring.target[sample]])].astype(np.int32)
    routing = _folded_routes(wiring, classes, image, len(target))
    return None if routing is None else Bundles(routing, target, bundle_of, sample)


def _folded_routes(wiring: Wiring, classes: NDArray[np.int64], image: NDArray[np.int64], links: int) -> Routes | None:
    """The records of one node of each class, each group narrowed to the bundles that its links belong to.

    A bundle stands in a group as often as its share of the group's links asks. None when the groups of one record come
    out of different width, which a record cannot hold.
    """
    table = wiring.routing
    chosen = classes == np.arange(wiring.nodes)
    keep = np.repeat(chosen, np.diff(table.record_ptr))
    groups = table.groups()[keep]
    width = np.repeat(table.width[keep], groups).astype(np.int64)
    first = np.repeat(table.first[keep], groups) + _within(groups) * width
    choice = table.choices[np.repeat(first, width) + _within(width)]
    folded = np.where(choice >= 0, image[choice], -1)
    number = np.repeat(np.arange(len(width)), width)
    span = links + 1
    keys, size = np.unique(number * span + folded + 1, return_counts=True)
    group_of = keys // span
    first_key = np.searchsorted(group_of, np.arange(len(width)))
    times = size // np.gcd.reduceat(size, first_key)[group_of] if len(size) else size
    new_width = np.bincount(group_of, weights=times, minlength=len(width)).astype(np.int64)
    record = np.repeat(np.arange(len(groups)), groups)
    of_record = np.zeros(len(groups), np.int64)
    of_record[record] = new_width
    if (of_record[record] != new_width).any():
        return None
    begin = np.concatenate([[0], np.cumsum(new_width)])
    per_node = np.where(chosen, np.diff(table.record_ptr), 0)
    return replace(
        table,
        record_ptr=np.concatenate([[0], np.cumsum(per_node)]).astype(np.int64),
        lo=table.lo[keep],
        hi=table.hi[keep],
        first=begin[np.concatenate([[0], np.cumsum(groups)])[:-1]],
        width=of_record.astype(np.int32),
        stride=table.stride[keep],
        choices=np.repeat(keys % span - 1, times).astype(np.int32),
    )


def _within(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2, ... restarting for every count."""
    end = np.cumsum(counts)
    return np.arange(end[-1] if len(end) else 0) - np.repeat(end - counts, counts)
