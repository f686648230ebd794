"""NICs that measure each other: each once, with one below the same leaf where there is one."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from railyard.ask.accept.groups import access

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.deploy.plan.cabling import Plan


class End(NamedTuple):
    """A NIC of the back-end.

    Attributes:
        leaf: Device that it is cabled to.
        nic: Number on its server, from 0.
        server: Number of the server.
        row: Of the plan's cables.
    """

    leaf: int
    nic: int
    server: int
    row: int


def pairs(plan: Plan) -> Iterator[tuple[End, End]]:
    """All NICs in pairs, of different servers wherever there are two; an odd one out is tested with one of another."""
    rows, cables = access(plan), plan.cables
    columns = (cables.b[rows], cables.a_port[rows] - 1, cables.a[rows], rows)
    ends = sorted(map(End, *(column.tolist() for column in columns)))
    left: list[End] = []
    for _, below in groupby(ends, key=lambda end: end.leaf):
        rest: list[End] = []
        for end in below:
            partner = next((one for one in rest if one.server != end.server), None)
            if partner is None:
                rest.append(end)
            else:
                rest.remove(partner)
                yield partner, end
        left += rest
    for end in left:
        other = next((one for one in ends if one.server != end.server and one.nic == end.nic), None)
        if other is not None:
            yield end, other
