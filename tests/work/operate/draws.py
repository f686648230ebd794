"""Random clusters and random jobs, for a real slurmctld and for Railyard."""

from dataclasses import dataclass

import numpy as np

from railyard.work.operate.free import FreeNodes, PlacementRequest


@dataclass(frozen=True)
class Drawn:
    """A cluster as Slurm reads it; `least` nodes are in its smallest base block."""

    kind: str
    nodes: int
    topology: str
    least: int = 0

    @property
    def names(self):
        return f"n[0000-{self.nodes - 1:04d}]"


def _listed(first, count):
    return ",".join(f"n{number:04d}" for number in range(first, first + count))


def draw_tree(rng, leafs=14, widest=9):
    """Leafs of unlike sizes in a shuffled order, below pods and zones or none."""
    sizes = [rng.randint(1, widest) for _ in range(rng.randint(2, leafs))]
    starts = np.cumsum([0, *sizes]).tolist()
    order = rng.sample(range(len(sizes)), len(sizes))
    lines = [f"SwitchName=leaf{leaf} Nodes={_listed(starts[leaf], sizes[leaf])}" for leaf in order]
    top = [f"leaf{leaf}" for leaf in order]
    for tier in range(rng.choice([0, 1, 1, 2])):
        groups = {}
        for switch in top:
            groups.setdefault(f"tier{tier}-{rng.randrange(4)}", []).append(switch)
        lines += [f"SwitchName={name} Switches={','.join(below)}" for name, below in groups.items()]
        top = list(groups)
    lines.append(f"SwitchName=core Switches={','.join(top)}")
    return Drawn("tree", starts[-1], "\n".join(lines) + "\n")


def draw_blocks(rng):
    """Blocks, some with spare nodes, joined at some powers of two."""
    widest = rng.randint(2, 9)
    sizes = [
        widest if rng.random() < 0.7 else rng.randint(max(1, widest - 2), widest) for _ in range(rng.randint(2, 20))
    ]
    least = max(1, min(sizes) - rng.choice([0, 0, 1]))
    steps = [0, *(step for step in range(1, 5) if rng.random() < 0.6)]
    starts = np.cumsum([0, *sizes]).tolist()
    lines = [f"BlockName=b{at} Nodes={_listed(starts[at], size)}" for at, size in enumerate(sizes)]
    lines.append("BlockSizes=" + ",".join(str(least << step) for step in steps))
    return Drawn("block", starts[-1], "\n".join(lines) + "\n", least)


def wanted(rng, drawn):
    """Nodes and segment of a job: mostly small, some large; of blocks, some in segments, not all of which can be."""
    nodes = max(1, int(rng.paretovariate(0.7)))
    if drawn.kind == "tree" or rng.random() < 0.6:
        return nodes, 0
    segment = rng.randint(1, drawn.least + 1)
    return segment * rng.randint(1, 4) + (rng.random() < 0.1), segment


class Rounds:
    """Jobs that come and go: yields, round by round, what ends and what is wanted, by what was placed."""

    def __init__(self, rng, drawn, tree, rounds, jobs):
        self.rng, self.drawn, self.tree, self.rounds, self.jobs = rng, drawn, tree, rounds, jobs
        self.free, self.live = FreeNodes(tree), {}

    def ends(self):
        """Jobs that end now."""
        gone = [job for job in self.live if self.rng.random() < 0.5]
        for job in gone:
            self.free.give(self.live.pop(job), int(self.tree.accelerators[0]))
        return gone

    def asks(self):
        """What is asked for in this round: (nodes, segment), together no more than is free."""
        left, found = self.free.idle, []
        for _ in range(self.jobs):
            nodes, segment = wanted(self.rng, self.drawn)
            if nodes <= left:
                found.append((nodes, segment))
                left -= nodes
        return found

    def expect(self, place, nodes, segment):
        """Railyard's answer."""
        found = place(PlacementRequest(nodes, int(self.tree.accelerators[0]), segment=segment), self.free)
        return None if found is None else found.tolist()

    def take(self, job, nodes):
        """Books what the scheduler gave."""
        self.live[job] = np.array(nodes, np.int32)
        self.free.take(self.live[job], int(self.tree.accelerators[0]))
