"""Records what a slurmctld answers to random jobs: `python tools/record_slurm.py POLICY FIRST COUNT [--root ROOT]`.

Prints one JSON object a cluster. Wants root, slurmctld and munge; ROOT is that of a system with another Slurm.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.work.operate.draws import Rounds, draw_blocks, draw_tree
from tests.work.operate.slurmctld import Slurmctld
from tests.work.operate.test_slurm import ask_for

from railyard.work.operate.discipline import policies
from railyard.work.operate.topology_file import topology_formats


def record(policy: str, seed: int, root: str) -> dict[str, object]:
    """The steps of one cluster."""
    rng = random.Random(seed)
    drawn = draw_tree(rng) if "tree" in policy else draw_blocks(rng)
    tree = topology_formats.get(f"slurm-{drawn.kind}").read(drawn.topology, "drawn")
    play, steps, at = Rounds(rng, drawn, tree, 3, 20), [], {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Slurmctld(Path(folder) / "s", drawn.kind, drawn.names, drawn.topology, port=20000 + seed, root=root) as slurm,
    ):
        for _ in range(3):
            gone = play.ends()
            steps += [{"end": at[job]} for job in gone]
            if gone:
                slurm.cancel(gone)
            for job, (nodes, segment), names in ask_for(slurm, play, policies.get(policy).place):
                theirs = None if names is None else sorted(tree.number[name] for name in names)
                at[job] = len(steps)
                steps.append({"nodes": nodes, **({"segment": segment} if segment else {}), "got": theirs})
                if theirs:
                    play.take(job, theirs)
    return {"policy": policy, "topology": drawn.topology, "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--root", default="")
    asked = parser.parse_args()
    for seed in range(asked.first, asked.first + asked.count):
        print(json.dumps(record(asked.policy, seed, asked.root), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
