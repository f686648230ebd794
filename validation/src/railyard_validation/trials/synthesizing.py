"""Synthesized collectives: what a size means, and what published schedules take for the same data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

COLLECTIVES = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")


def star(folder: Path, ranks: int, rate: float, latency: float) -> None:
    """Ranks 1 to n around a switch, node 0."""
    rows = ["source,destination,gb_per_s,latency_us"]
    for rank in range(1, ranks + 1):
        rows += [f"0,{rank},{rate},{latency}", f"{rank},0,{rate},{latency}"]
    (folder / "star.csv").write_text("\n".join(rows) + "\n")


def least_us(collective: str, size: float, ranks: int, rate: float) -> float:
    """What the bytes into a rank, or out of it, take of its link (1 GB/s: 1,000 bytes a microsecond).

    A rank lacks all but one part of a gathered output, sends all but one part of what is scattered or exchanged, and of
    what is reduced for all it sends and gets everything once (the switch adds nothing).
    """
    share = 1.0 if collective == "all-reduce" else (ranks - 1) / ranks
    return size * share / (rate * 1e3)


def sizes(random: np.random.Generator, folder: Path) -> Case:
    """A star whose times are known, and the fields that say what the size is."""
    ranks, rate = int(random.integers(3, 13)), float(random.choice([5.0, 12.5, 50.0]))
    latency = float(random.choice([0.2, 0.7, 2.0]))
    collective = str(random.choice(COLLECTIVES))
    size = int(random.integers(1, 4000)) * 1000 * ranks
    star(folder, ranks, rate, latency)
    command = [
        "synthesize",
        "--links",
        "star.csv",
        "--collective",
        collective,
        "--size",
        f"{size} B",
        "--switches",
        "0",
    ]
    pair = size / ranks
    total = size if collective == "all-gather" else size * ranks

    def judge(outputs: Sequence[Output]) -> list[str]:
        found, help_ = outputs[0].data, " ".join(outputs[1].text.split())
        said, wrong = found["size"], []
        wanted = {"bytes": size, "per_pair_bytes": pair, "total_bytes": total, "ranks": ranks}
        wrong += [f"size.{key}: {said.get(key)}, not {value}" for key, value in wanted.items() if said[key] != value]
        if not said["definition"]:
            wrong.append("the size has no definition")
        least = least_us(collective, size, ranks, rate)
        bound = found["lower_bound_us"]
        if not least * (1 - 1e-9) <= bound <= found["finish_us"] * (1 + 1e-9):
            wrong.append(f"the bound {bound} is not between {least} and the finish {found['finish_us']}")
        if collective != "all-reduce" and bound > least + 2 * latency + 1e-6:
            wrong.append(f"the bound {bound} is above the link's time {least} and two latencies")
        wrong += [f"the help does not say `{word}`" for word in ("each rank", "pair") if word not in help_]
        return wrong

    words = f"{collective} of {size:,} bytes on {ranks} ranks at {rate} GB/s, {latency} us"
    return Case(words, [[*command, "--json", "--quiet"], ["synthesize", "--help"]], judge)


def both_grounds(random: np.random.Generator, folder: Path) -> Case:
    """The same size means the same bytes between a table of links and a cluster."""
    servers, collective = int(random.choice([2, 3])), str(random.choice(COLLECTIVES))
    ranks, size = servers * 8, int(random.integers(1, 60)) * 48_000
    star(folder, ranks, 50.0, 1.0)
    cluster = {"accelerators": ranks, "server": "hgx-h100"}
    training = {"model": "llama-3-8b", "tokens": "1 B", "global_batch": 64, "sequence": 4096, "parallelism": {"tp": 8}}
    (folder / "cluster.yaml").write_text(
        json.dumps({"name": "c", "cluster": cluster, "workload": {"training": training}})
    )
    tail = ["--collective", collective, "--size", f"{size} B", "--most-sends", "2000", "--json", "--quiet"]

    def judge(outputs: Sequence[Output]) -> list[str]:
        one, other = (out.data["size"] for out in outputs)
        return [f"{key}: {one[key]} with links, {other[key]} on a cluster" for key in one if one[key] != other[key]]

    words = f"{collective} of {size:,} bytes on {ranks} ranks"
    commands = [
        ["synthesize", "--links", "star.csv", "--switches", "0", *tail],
        ["synthesize", "--cluster", "cluster.yaml", *tail],
    ]
    return Case(words, commands, judge)


def published(random: np.random.Generator, folder: Path) -> Case:
    """Published schedules with the same bytes a pair; those that no schedule can reach are listed by themselves."""
    del folder
    number = int(random.integers(0, 3))

    def judge(outputs: Sequence[Output]) -> list[str]:
        found = outputs[0].data
        wrong = []
        rows = {(row["topology"], row["collective"], row["size"]): row for row in found["compared"]}
        strange = {(row["topology"], row["collective"], row["size"]): row for row in found["unexplained"]}
        for row in rows.values():
            if row["published_us"] < row["lower_bound_us"] * (1 - 1e-9):
                wrong.append(f"{row} is published below the bound, and compared all the same")
            if row["finish_us"] > row["published_us"] * 1.0001:
                wrong.append(f"{row} is worse than what is published")
        # eight ranks of one chassis send to eight of the other over one link of 12.5 GB/s
        for size, published_us in (("1MB", 290.0), ("16MB", 4540.0), ("1GB", 283750.0))[number:]:
            row = strange["ndv2", "all-to-all", size]
            scale = {"MB": 1e6, "GB": 1e9}[size[-2:]] * float(size[:-2])
            if abs(row["lower_bound_us"] - (64 * scale / 16 / 12.5e3 + 1.3)) > 0.01:
                wrong.append(f"the bound of {size} is {row['lower_bound_us']}")
            if row["published_us"] != published_us:
                wrong.append(f"published for {size}: {row['published_us']}")
        return wrong

    return Case(f"from row {number} on", [["validate", "synthesis", "--json"]], judge)


trials.add(
    "synthesize-size", Trial("synthesize-size", "a size is given by rank, pair and in total, and kept to", sizes)
)
trials.add(
    "synthesize-grounds", Trial("synthesize-grounds", "a size means the same on links and on a cluster", both_grounds)
)
trials.add(
    "synthesize-published",
    Trial(
        "synthesize-published",
        "published all-to-alls at the same bytes a pair; unexplained rows listed separately",
        published,
    ),
)
