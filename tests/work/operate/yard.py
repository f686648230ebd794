"""Small runs for tests."""

import numpy as np

from railyard.work.operate.jobs import JobTable
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import Rules
from railyard.work.operate.tree import NodeTree

S = 1_000_000


def tree(nodes=4, each=8, leaf=2):
    return NodeTree.listed([f"n{i}" for i in range(nodes)], each, [("leaf", [f"l{i // leaf}" for i in range(nodes)])])


def jobs(*rows, **columns):
    """Rows of (submitted s, work s, nodes)."""
    submit, work, nodes = (np.array(column) for column in zip(*rows, strict=True))
    columns = {"each": np.full(len(rows), 8, np.int32), **columns}
    return JobTable.of(submit * S, work * S, nodes.astype(np.int32), **columns)


def played(table, *, nodes=4, faults=None, contention=None, until=-1, each=8, **rules):
    run = ClusterRun(
        table,
        tree(nodes, each),
        Rules(**rules),
        faults=faults,
        contention=contention,
        until_us=until * S if until >= 0 else -1,
    )
    assert run.run()
    return run


def seconds(column):
    return [None if value < 0 else value / S for value in column]


def accounts_add_up(run):
    """What jobs had is what became of it."""
    allocated = np.zeros(len(run.jobs), np.int64)
    for job, start, end, _, _, count in run.ledger.allocations:
        allocated[job] += (end - start) * count * run.state.each[job]
    assert [sum(parts) for parts in run.state.spent] == allocated.tolist()
    assert run.ledger.busy_us == allocated.sum()


class Given:
    """Faults that are given."""

    chunk_us = 10**15

    def __init__(self, *faults):
        self.faults = faults

    def chunk(self, number):
        return self.faults if number == 0 else ()
