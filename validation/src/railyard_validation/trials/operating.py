"""Many jobs for months: figures of the time in which jobs arrive, and what became of jobs that did not finish."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import yaml

from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

SECOND = 1_000_000
GPUS = 8
"""Of a server."""


@dataclass(frozen=True)
class Job:
    """Whole servers for a time, in seconds."""

    submit: int
    takes: int
    nodes: int


def first_come(jobs: Sequence[Job], nodes: int) -> list[int]:
    """When each job starts on a cluster of so many servers: in order, none overtakes, none fails."""
    running: list[tuple[int, int]] = []
    free, now, starts = nodes, 0, []
    for job in jobs:
        now = max(now, job.submit)
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[1]
        while free < job.nodes:
            now, more = heapq.heappop(running)
            free += more
        free -= job.nodes
        heapq.heappush(running, (now + job.takes, job.nodes))
        starts.append(now)
    return starts


def used(jobs: Sequence[Job], starts: Sequence[int], begin: float, end: float) -> float:
    """Server-seconds that jobs have between two times."""
    return sum(
        job.nodes * max(min(start + job.takes, end) - max(start, begin), 0.0)
        for job, start in zip(jobs, starts, strict=True)
    )


def written(folder: Path, jobs: Sequence[Job], nodes: int, **section: Any) -> None:
    """The scenario and its trace."""
    rows = [f"{one.submit},{one.takes},{one.nodes * GPUS}" for one in jobs]
    (folder / "jobs.csv").write_text("\n".join(["submit_s,duration_s,accelerators", *rows]) + "\n")
    operate = {"jobs": "jobs.csv", "queue": {"discipline": "fifo", "backfill": "none"}, **section}
    cluster = {"accelerators": nodes * GPUS, "server": "hgx-h100"}
    document = {"name": "many", "cluster": cluster, "workload": {"operate": operate}}
    (folder / "many.yaml").write_text(yaml.safe_dump(document))


def figures(out: Output) -> dict[str, Any]:
    """Of the only variant."""
    return dict(out.data["variants"][0]["operate"])


def off(what: str, found: float, wanted: float, most: float = 1e-3) -> list[str]:
    """A problem where two figures differ by more than a part of the wanted one."""
    return [f"{what}: {found:.6g}, not {wanted:.6g}"] if abs(found - wanted) > most * max(abs(wanted), 1e-9) else []


def dollars(found: dict[str, Any], span_s: float, useful_h: float) -> list[str]:
    """Dollars are those of the window, and so are the useful hours that they are divided by."""
    usd = found["usd"]
    total = usd["per_h"]["typical"] * span_s / 3600
    per_hour = usd["per_useful_accelerator_hour"]["typical"]
    return [
        *off("dollars of the window", usd["total"]["typical"], total),
        *off("dollars of a useful GPU-hour", per_hour, total / useful_h),
    ]


def queued(random: np.random.Generator, count: int, nodes: int, load: float) -> list[Job]:
    """Jobs of random sizes and times that ask for a load."""
    sizes = random.choice([1, 2, 4, 8], count).tolist()
    takes = random.integers(600, 40_000, count).tolist()
    asked = sum(size * time for size, time in zip(sizes, takes, strict=True))
    submit = sorted(random.integers(0, int(asked / nodes / load), count).tolist())
    submit = [one - submit[0] for one in submit]  # a run begins with the first job of its trace
    return [Job(*row) for row in zip(submit, takes, sizes, strict=True)]


def drains(random: np.random.Generator, folder: Path) -> Case:
    """A queue, and a few long jobs at its end that run on alone."""
    nodes, load = int(random.integers(10, 40)), float(random.uniform(0.6, 1.3))
    jobs = queued(random, int(random.integers(80, 200)), nodes, load)
    last = jobs[-1].submit
    jobs += [Job(last, int(random.integers(100_000, 900_000)), 1) for _ in range(int(random.integers(1, 4)))]
    starts = first_come(jobs, nodes)
    first, end = jobs[0].submit, max(start + one.takes for one, start in zip(jobs, starts, strict=True))
    written(folder, jobs, nodes)
    busy, tail = used(jobs, starts, first, last), used(jobs, starts, last, end)

    def judge(outputs: Sequence[Output]) -> list[str]:
        found = figures(outputs[0])
        share = busy / (last - first) / nodes
        return [
            *off("utilization", found["utilization"], share),
            *off("goodput", found["goodput"], share),
            *off("start of the window", found["steady"]["start_s"], first),
            *off("end of the window", found["steady"]["end_s"], last),
            *off("utilization of the drain", found["drain"]["utilization"], tail / max(end - last, 1) / nodes, 2e-3),
            *dollars(found, last - first, busy * GPUS / 3600),
            *([] if "drain" in outputs[1].text else ["the table does not name the drain"]),
        ]

    words = f"{len(jobs)} jobs on {nodes} servers at a load of {load:.2f}"
    return Case(
        words, [["operate", "many.yaml", "--json", "--quiet"], ["operate", "many.yaml", "--quiet", "--details"]], judge
    )


def periodic(random: np.random.Generator, folder: Path) -> Case:
    """A job of the same size and time every so often: from a while after the start on, the same use for ever."""
    size, every = int(random.integers(1, 5)), int(random.integers(200, 2000))
    at_once = int(random.integers(2, 9))
    takes = every * at_once - int(random.integers(0, every))
    nodes = size * at_once + int(random.integers(0, 6))
    count = at_once * int(random.integers(8, 20))
    jobs = [Job(number * every, takes, size) for number in range(count)]
    begin = every * (at_once + int(random.integers(0, 3)))
    end = begin + every * int(random.integers(2, count - 2 * at_once - 3))
    written(folder, jobs, nodes, steady={"start": f"{begin} s", "end": f"{end} s"})
    share = size * takes / every / nodes

    def judge(outputs: Sequence[Output]) -> list[str]:
        found = figures(outputs[0])
        return [
            *off("utilization", found["utilization"], share),
            *off("goodput", found["goodput"], share),
            *off("start of the window", found["steady"]["start_s"], begin),
            *off("end of the window", found["steady"]["end_s"], end),
            *dollars(found, end - begin, share * nodes * GPUS * (end - begin) / 3600),
        ]

    words = f"a job of {size} servers every {every} s for {takes} s on {nodes} servers, window {begin} to {end} s"
    return Case(words, [["operate", "many.yaml", "--json", "--quiet"]], judge)


def cut_short(random: np.random.Generator, folder: Path) -> Case:
    """A run that ends while jobs run, wait, or have not been submitted."""
    nodes = int(random.integers(10, 30))
    jobs = queued(random, int(random.integers(80, 160)), nodes, float(random.uniform(1.1, 1.8)))
    starts = first_come(jobs, nodes)
    until = int(jobs[int(len(jobs) * random.uniform(0.4, 0.95))].submit) + 1
    written(folder, jobs, nodes, until=f"{until} s")
    first = jobs[0].submit
    last = min(jobs[-1].submit, until)
    started = [start < until for start in starts]
    done = sum(start + one.takes <= until for one, start in zip(jobs, starts, strict=True))
    submitted = sum(one.submit <= until for one in jobs)
    waiting, later = submitted - sum(started), len(jobs) - submitted

    def judge(outputs: Sequence[Output]) -> list[str]:
        found = figures(outputs[0])
        counts = found["jobs"]
        share = used(jobs, starts, first, last) / (last - first) / nodes
        return [
            *off("utilization", found["utilization"], share, 2e-3),
            *off("jobs done", counts["done"], done, 0.0),
            *off("jobs that run at the end", counts["running"], sum(started) - done, 0.0),
            *off("jobs that waited and never started", counts["waiting"], waiting, 0.0),
            *off("jobs that were never submitted", counts["unsubmitted"], later, 0.0),
            *([] if not waiting or "never start" in outputs[1].text + outputs[1].words else ["it does not say so"]),
        ]

    words = f"{len(jobs)} jobs on {nodes} servers until {until} s: {waiting} never start, {later} come later"
    return Case(words, [["operate", "many.yaml", "--json", "--quiet"], ["operate", "many.yaml"]], judge)


KINDS = (
    {"share": 0.5, "sizes": {"1": 0.4, "4": 0.3, "8": 0.3}, "median": "2 h", "p90": "20 h", "tenant": "lab"},
    {"share": 0.4, "sizes": {"16": 0.4, "64": 0.4, "128": 0.2}, "median": "4 h", "p90": "30 h", "tenant": "core"},
    {"share": 0.1, "sizes": {"256": 0.7, "512": 0.3}, "median": "6 h", "p90": "24 h", "tenant": "big"},
)


def two_months(random: np.random.Generator, folder: Path) -> Case:
    """Months of drawn jobs with failures; what jobs had is in the allocations that the run writes."""
    gpus = int(random.choice([800, 1200, 1600]))
    backfill, profile = str(random.choice(["easy", "any"])), str(random.choice(["llama3", "rsc1"]))
    count, load = int(random.integers(800, 2000)), float(random.uniform(0.7, 1.0))
    synthetic = {"count": count, "load": load, "kinds": list(KINDS)}
    operate = {
        "jobs": {"synthetic": synthetic},
        "queue": {"discipline": "fifo", "backfill": backfill},
        "placement": "slurm-tree",
        "failures": profile,
        "draws": 2,
        "recovery": {"checkpoint": "async", "interval": "daly", "spares": 4},
    }
    back_end = {"topology": {"kind": "leaf-spine", "oversubscription": "2:1", "ports_per_leaf": 64}, "fabric": "roce"}
    cluster = {"accelerators": gpus, "server": "hgx-h100", "back_end": back_end}
    document = {
        "name": "many",
        "seed": int(random.integers(0, 99)),
        "cluster": cluster,
        "workload": {"operate": operate},
    }
    (folder / "many.yaml").write_text(yaml.safe_dump(document))

    def judge(outputs: Sequence[Output]) -> list[str]:
        if outputs[0].code:
            return [outputs[0].words]
        (result,) = (folder / "runs").glob("*/result.json")
        found = json.loads(result.read_text())["variants"][0]["operate"]
        jobs = pl.read_parquet(result.with_name("jobs.parquet"))
        submit = jobs["submit_us"].to_list()
        first, last = min(submit), max(submit)
        rows = pl.read_parquet(result.with_name("allocations.parquet")).to_dicts()
        each = (jobs["accelerators"] / jobs["nodes"]).to_list()
        had = sum(
            max(min(row["end_us"], last) - max(row["start_us"], first), 0) * len(row["nodes"]) * each[row["job"]]
            for row in rows
        )
        draws = found["draws"]["by_draw"][0]
        return [
            *off("utilization", found["utilization"], had / (last - first) / gpus),
            *off("goodput of the first draw", draws["goodput"], found["goodput"]),
            *off("goodput over ETTR", found["goodput"] / found["ettr"], found["utilization"]),
            *dollars(found, (last - first) / SECOND, draws["useful_accelerator_hours"]),
        ]

    words = f"{count} jobs at {load:.2f} on {gpus} GPUs, {backfill} backfill, {profile}"
    return Case(words, [["operate", "many.yaml", "--quiet", "--out", "runs"]], judge)


def add(name: str, expected: str, draw: Callable[[np.random.Generator, Path], Case]) -> None:
    """Registers a trial."""
    trials.add(name, Trial(name, expected, draw))


add("operate-drain", "figures from the first submission to the last, the drain by itself", drains)
add("operate-window", "the closed form of jobs that come at even times, over the window that is asked for", periodic)
add("operate-cut-short", "jobs that never start, run on or were never submitted are counted and named", cut_short)
add("operate-months", "use, goodput and dollars over the same window, as the allocations have it", two_months)
