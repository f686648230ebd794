"""A day of jobs as a real slurmctld places them, beside Railyard: `python tools/slurm_day.py [--day N] [--svg FILE]`.

Railyard plays the day (first come first served, EASY backfill); what starts and ends is then given to slurmctld in the
same order, which chooses nodes by itself. A job gets a node for each accelerator that it asked for: Philly's jobs are
small, and Slurm's topology places nodes. Wants root, slurmctld and munge. Exits with 1 where a placement differs.
"""

from __future__ import annotations

import argparse
import colorsys
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.work.operate.slurmctld import Slurmctld

from railyard.work.operate import trace
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import DAY, Rules
from railyard.work.operate.topology_file import topology_formats

WEEK = Path(__file__).parents[1] / "examples" / "operate" / "philly_week.csv"
LEAFS, WIDE = 17, 8
NODES = LEAFS * WIDE
POLICY = "slurm-tree-23.11"
MOST_SHOWN = 10
Placed = list[tuple[int, int, int, list[int]]]
"""Job, start, end in microseconds, nodes; in the order in which jobs start."""


def topology() -> str:
    """Leafs of nodes under one switch, as Slurm reads it."""
    lines = [f"SwitchName=leaf{leaf} Nodes=n[{leaf * WIDE:04d}-{(leaf + 1) * WIDE - 1:04d}]" for leaf in range(LEAFS)]
    return "\n".join([*lines, f"SwitchName=core Switches=leaf[0-{LEAFS - 1}]"]) + "\n"


def played(day: int) -> Placed:
    """The day as Railyard places it."""
    tree = topology_formats.get("slurm-tree").read(topology(), "topology.conf")
    jobs = trace.table(trace.read(WEEK), tree, start_s=day * 86_400.0, length_s=86_400.0)
    run = ClusterRun(jobs, tree, Rules(policy=POLICY), until_us=DAY)
    run.run()
    nodes = run.ledger.nodes
    found = [
        (job, start, end, sorted(nodes[first : first + n])) for job, start, end, _, first, n in run.ledger.allocations
    ]
    return sorted(found, key=lambda one: (one[1], one[0]))


def asked(placed: Placed) -> Placed:
    """The same starts and ends, with the nodes that slurmctld chooses."""
    moments = sorted({time for _, start, end, _ in placed for time in (start, end)})
    number: dict[int, int] = {}
    theirs: dict[int, list[int]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Slurmctld(Path(folder) / "s", "tree", f"n[0000-{NODES - 1:04d}]", topology(), port=21950) as slurm,
    ):
        for moment in moments:
            gone = [number[job] for job, start, end, _ in placed if end == moment and start < moment]
            if gone:
                slurm.cancel(gone)
            begun = [(job, len(nodes)) for job, start, end, nodes in placed if start == moment and end > moment]
            for job, count in begun:
                number[job] = slurm.submit(count)
            found = slurm.placed([number[job] for job, _ in begun]) if begun else {}
            theirs |= {job: sorted(int(name[1:]) for name in found[number[job]]) for job, _ in begun}
    return [(job, start, end, theirs.get(job, nodes)) for job, start, end, nodes in placed]


def picture(sides: dict[str, Placed]) -> str:
    """Nodes against time, a colour a job, one panel a side."""
    wide, high, left, top = 460, 380, 46, 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * (wide + left) + 36} {high + top + 44}"'
        ' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for place, (name, placed) in enumerate(sides.items()):
        x0 = left + place * (wide + left + 10)
        parts.append(f'<text x="{x0}" y="16" font-weight="bold">{name}</text>')
        parts.append(f'<text x="{x0 - 40}" y="{top - 8}" fill="#555">node</text>')
        parts.append(f'<rect x="{x0}" y="{top}" width="{wide}" height="{high}" fill="#eef0f3"/>')
        for job, start, end, nodes in placed:
            red, green, blue = colorsys.hls_to_rgb(job * 0.618034 % 1.0, 0.35 + 0.3 * (job * 0.754878 % 1.0), 0.55)
            color = f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
            x, w = x0 + start / DAY * wide, (end - start) / DAY * wide
            for run in np.split(np.array(nodes), np.flatnonzero(np.diff(nodes) > 1) + 1):
                y, h = top + run[0] * high / NODES, len(run) * high / NODES
                parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0.3):.1f}" height="{h:.1f}" fill="{color}"/>'
                )
        for hour in range(0, 25, 6):
            x = x0 + hour / 24 * wide
            parts.append(f'<text x="{x:.0f}" y="{top + high + 16}" text-anchor="middle" fill="#555">{hour} h</text>')
        for node in range(0, NODES, 16):
            y = top + node * high / NODES + 10
            parts.append(f'<text x="{x0 - 6}" y="{y:.0f}" text-anchor="end" fill="#555">{node}</text>')
        parts.append(
            f'<text x="{x0 + wide}" y="{top + high + 34}" text-anchor="end" fill="#555">time of the day</text>'
        )
    return "".join([*parts, "</svg>\n"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--day", type=int, default=0, help="of the week, from 0")
    parser.add_argument("--svg", type=Path, help="write both sides as a picture")
    options = parser.parse_args()
    ours = played(options.day)
    theirs = asked(ours)
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one[3] != other[3]]
    print(f"{len(ours)} placements of {len({one[0] for one in ours})} jobs on {NODES} nodes: {len(pairs)} differ")
    for (job, start, _, mine), (_, _, _, other) in pairs[:MOST_SHOWN]:
        print(f"  job {job} at {start / 3.6e9:.2f} h: Railyard {mine}, Slurm {other}")
    if options.svg:
        sides = {f"Railyard, {POLICY}": ours, "Slurm, slurmctld": theirs}
        options.svg.write_text(picture(sides), encoding="utf-8")
    return int(bool(pairs))


if __name__ == "__main__":
    sys.exit(main())
