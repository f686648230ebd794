#!/usr/bin/env python3
"""Published effects of placement and traffic control, and what the package's own model says: one page.

Usage: validation/tools/placement_effects.py [--draws 6] [--write]

`--write` puts the page into docs/validation/placement.md. A minute on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from railyard_validation.placement.crux import crux
from railyard_validation.placement.effects import arnold, cassini, racks

PAGE = Path(__file__).parents[2] / "docs/validation/placement.md"
HEAD = """# Published effects of placement and traffic control

Effects that papers and operators report, in small settings of the package's own model. Where a paper does not publish
a setting, it is assumed, and named. Nothing is fitted. The page is written by
`validation/tools/placement_effects.py`.
"""
CRUX = """## Crux: who goes first, and which way

Crux (J. Cao et al., SIGCOMM 2024): on a testbed of 12 hosts of eight A100 with four NICs of 200 Gb/s, GPT on 32 GPUs
with BERT on 8 each gains 8.3 to 12.9 % in GPU utilization (GPT's jobs end 11 to 25 % sooner, BERT's 0 to 3 % later),
GPT on 48 with two BERT and two ResNet 13.9 % (GPT 18 %, BERT 15 % sooner, ResNet 2 % later); up to 23 % over other
schedulers in simulation. Here the same jobs on as many hosts, half of them under each of two leafs, hashed paths.
Assumed, since it is not published: the share of a step that traffic takes, half of it under computation; BERT's and
ResNet's steps. `paths: selected` and `priorities: intensity` are Crux' sections 4.1 to 4.3. Gain in utilization, a mean
over draws of the hashes; step of GPT (and of the mean of the others) with both:
"""
CRUX_END = """
Direction and size come out, with chosen paths that the engine runs on and not a bound: the published range lies at a
share of traffic of a tenth to a seventh. What it is made of is another: nearly all of it is paths, and those who are
not prioritized gain too. Priorities by themselves move utilization by less than 1 %: who goes first gains what the
other loses, and a ring goes as fast as its slowest edge, mostly one where a job meets itself. They count where links
are short even for chosen paths (2:1, five jobs). The paper has no figure of priorities alone against none: its
testbed ran both. Its correction of the intensity is used; its two examples come out as printed (tests).
"""
CASSINI = """## CASSINI: steps that fit into one another

CASSINI (NSDI 2024, abstract): completion up to 1.6 times sooner on average and 2.5 times at the tail, 24 servers.
Here equal jobs over one uplink, each of which sends for the share of its step that lets all of them fit (255 ms, as
assumed for VGG16). Step over the step with shifts:
"""
CASSINI_END = """
Jobs that begin together gain what is published on average; jobs in any phase gain a fifth, since fluids share fairly
and what queues and marks cost on top is left out. Drifting, with steps that vary by 0.5 % (assumed) and jobs that wait
for their places once they are 5 % of a step off (as CASSINI does), keeps nearly all of it. The published tail is not
reached, and cannot be by shifts: n equal jobs that fit into one step lose at most a factor of 2 - 1/n in phase. 2.5
times needs jobs that are kept separate, which is placement, on a trace that is not public.
"""
ARNOLD = """## Arnold: groups of ranks in leafs

Arnold (NeurIPS 2025, arXiv 2509.15940, abstract): groups spread over up to 1.67 times fewer switches, 10.6 % end to
end at more than 9,600 GPUs. Here 256 of 768 H100, two thirds of the nodes free, anywhere; TP 8, PP 4, DP 8, leafs of
eight nodes. Assumed: model, sizes, oversubscription. Step against `communication`, and leafs that a data-parallel
group touches at most:
"""
RACKS = """## Racks of 72 that small jobs break

kubernetes-sigs/kueue 10406: 33 racks of 18 nodes of four GPUs; jobs of one GPU lie scattered over racks that are
partly full, and none is left whole for large jobs; going by racks first would fix it. Here such jobs take 80 % of
the GPUs, end anywhere until 30 % are left, and come and go (6,000). Whole racks that are idle:
"""


def _rows(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _crux(draws: int) -> str:
    rows = []
    for over, share in (("1:1", 0.1), ("1:1", 0.15), ("1:1", 0.2), ("2:1", 0.15)):
        for name, found in crux(draws, share, over).items():
            gains = [f"{found[way][0]:+.1%}" for way in ("priorities", "paths", "both")]
            steps = f"{found['both'][1]:+.0%} ({found['both'][2:].mean():+.0%})"
            rows.append([name, over, f"{share:.0%}", f"{found['hashed'][0]:.1%}", *gains, steps])
    heading = ["jobs, GPUs each", "leafs", "traffic", "hashed", "priorities", "paths", "both", "steps"]
    return _rows(heading, rows)


def _cassini() -> str:
    rows = []
    for jobs, share in ((2, 0.45), (3, 0.3), (4, 0.22)):
        found = cassini(jobs, share)
        ratios = [f"{found[name] / found['shifted']:.2f}" for name in ("in phase", "any phase")]
        alone = [f"{found[name]:.3f}" for name in ("shifted", "drifting")]
        rows.append([str(jobs), f"{found['share']:.0%}", *ratios, *alone])
    return _rows(
        ["jobs", "share that sends", "in phase", "any phase", "shifted over alone", "drifting over alone"], rows
    )


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
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    parts = [
        *(
            HEAD,
            CRUX,
            _crux(options.draws) + "\n" + CRUX_END.rstrip("\n"),
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
