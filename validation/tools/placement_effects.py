#!/usr/bin/env python3
"""Published effects of placement and traffic control, and what the package's own model says: one page.

Usage: validation/tools/placement_effects.py [--mixes 12] [--write]

`--write` puts the page into docs/validation/placement.md. A minute on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from railyard_validation.placement.effects import arnold, cassini, crux, racks

PAGE = Path(__file__).parents[2] / "docs/validation/placement.md"
HEAD = """# Published effects of placement and traffic control

Effects that papers and operators report, in small settings of the package's own model. Where a paper does not publish
a setting, it is assumed, and named. Nothing is fitted. The page is written by
`validation/tools/placement_effects.py`.
"""
CRUX = """## Crux: who goes first, and which way

Crux (SIGCOMM 2024, abstract): 8.3 to 14.8 % more GPU utilization on a testbed of 96 GPUs, up to 23 % in simulation.
Here 12 hosts of eight A100 with four NICs of 200 Gb/s, hashed paths, random jobs on random hosts. Assumed: the jobs
(6.7 billion parameters at 1.5 s a step, and two smaller classes), two leafs, no oversubscription where not named.
Selected paths are bounded from above by paths on which flows lie evenly. Mean (and largest) gain in utilization:
"""
CRUX_END = """
Direction and size come out by paths, up to the bound above, in which collisions of a job with itself are counted too.
Priorities alone do not: by intensity as Crux defines it (its correction is not public to us) the mean is about nothing,
for better or worse by mix. A ring here goes as fast as its slowest edge, so that where a job's own connections collide
it matters little who goes first; with even paths nothing is left to go first at. The published gain of priorities is
not reproduced.
"""
CASSINI = """## CASSINI: steps that fit into one another

CASSINI (NSDI 2024, abstract): completion up to 1.6 times sooner on average and 2.5 times at the tail, 24 servers.
Here equal jobs over one uplink, each of which sends for the share of its step that lets all of them fit (255 ms, as
assumed for VGG16). Step over the step with shifts:
"""
CASSINI_END = """
Jobs that begin together gain what is published on average; jobs in any phase gain a fifth, since fluids share fairly
and what queues and marks cost on top is left out. The published tail is not reached: it is of a trace and a testbed
that are not public.
"""
ARNOLD = """## Arnold: groups of ranks in leafs

Arnold (NeurIPS 2025, arXiv 2509.15940, abstract): groups spread over up to 1.67 times fewer switches, 10.6 % end to
end at more than 9,600 GPUs. Here 256 of 768 H100, two thirds of the nodes free, anywhere; TP 8, PP 4, DP 8, leafs of
eight nodes. Assumed: model, sizes, oversubscription. Step against `communication`, and leafs that a data-parallel
group touches at most:
"""
RACKS = """## Racks of 72 that small jobs break

kubernetes-sigs/kueue 10406: 33 racks of 18 nodes of four GPUs; jobs of one GPU lie scattered over racks that are
partly full, and none is left whole for large jobs; going by racks first would mend it. Here such jobs take 80 % of
the GPUs, end anywhere until 30 % are left, and come and go (6,000). Whole racks that are idle:
"""


def _rows(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _crux(mixes: int) -> str:
    rows = []
    for over in ("1:1", "2:1"):
        found = crux(mixes, over)
        gains = [f"{found[name].mean():+.1%} ({found[name].max():+.1%})" for name in ("priorities", "paths", "both")]
        rows.append([over, f"{found['base'].mean():.1%}", *gains])
    return _rows(["oversubscription", "hashed, none first", "priorities", "paths", "both"], rows)


def _cassini() -> str:
    rows = []
    for jobs, share in ((2, 0.45), (3, 0.3), (4, 0.22)):
        found = cassini(jobs, share)
        ratios = [f"{found[name] / found['shifted']:.2f}" for name in ("in phase", "any phase")]
        rows.append([str(jobs), f"{found['share']:.0%}", *ratios, f"{found['shifted']:.3f}"])
    return _rows(["jobs", "share that sends", "in phase", "any phase", "shifted over alone"], rows)


def _arnold() -> str:
    names, rows = ["communication", "slurm-tree", "first-fit", "worst", "random"], []
    for over in ("1:1", "2:1", "4:1"):
        found = arnold(names, oversubscription=over)
        best = found["communication"]["step_s"]
        rows.append([over, *(f"{one['step_s'] / best - 1:+.1%} ({one['spread']:.0f})" for one in found.values())])
    return _rows(["oversubscription", *names], rows)


def _racks() -> str:
    rows = []
    for name in ("domain", "slurm-tree", "first-fit", "kueue", "random"):
        found = racks(name)
        rows.append([f"`{name}`", f"{found['idle']:.1f}", f"{found['least']:.0f}"])
    return _rows(["policy", "idle racks", "could be"], rows)


def main() -> None:
    """Prints the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixes", type=int, default=12)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    parts = [
        *(
            HEAD,
            CRUX,
            _crux(options.mixes) + "\n" + CRUX_END.rstrip("\n"),
            CASSINI,
            _cassini() + "\n" + CASSINI_END.rstrip("\n"),
        ),
        *(ARNOLD, _arnold(), RACKS, _racks()),
    ]
    page = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    print(page)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
