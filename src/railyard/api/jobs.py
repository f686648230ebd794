"""Jobs that shared a cluster in words: a row a job, and what each costs the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.api import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    Variant = Mapping[str, Any]
    Job = Mapping[str, Any]

HEADINGS = ("variant", "job", "GPUs", "placement", "measure", "alone", "together", "slowdown", "because of", "$/Mtoken")
RIGHT = (2, 5, 6, 7)
_VISIBLE = 5e-4


def are_jobs(result: Mapping[str, Any]) -> bool:
    """Whether a result is of several jobs."""
    return all("jobs" in variant for variant in result["variants"])


def rows(variant: Variant) -> Iterator[list[str]]:
    """One variant's cells under `HEADINGS`, a row a job."""
    for job in variant["jobs"]:
        yield [
            variant["name"],
            job["name"],
            str(job["accelerators"]),
            job["placement"]["policy"],
            "TTFT p50" if job["kind"] == "serving" else "step",
            _measure(job["alone"]),
            _measure(job["together"]),
            f"{job['slowdown']:.3f}",
            _costs(job),
            _money(job),
        ]


def card(result: Mapping[str, Any], report: Path | None) -> str:
    """A line a job, and where the report is."""
    lines = [f"{result['name']}: jobs that share a cluster, engine {result['provenance']['engine']}"]
    for variant in result["variants"]:
        lines += ["  ".join(cells) for cells in rows(variant)]
    return "\n".join([*lines, f"report      {report if report is not None else 'not written'}"])


def why(result: Mapping[str, Any]) -> str:
    """Which job the others cost most."""
    return "\n".join(_most(variant) for variant in result["variants"])


def _most(variant: Variant) -> str:
    worst = max(variant["jobs"], key=lambda job: job["slowdown"])
    share = numbers.percent(worst["slowdown"] - 1)
    return f"{variant['name']}: the others cost {worst['name']} most, {share} of what it takes alone: {_costs(worst)}"


def notes(result: Mapping[str, Any]) -> list[str]:
    """What a table does not show: transfers of serving jobs, and whether serving and fabric agree."""
    return [line for variant in result["variants"] for line in _notes(variant)]


def _notes(variant: Variant) -> Iterator[str]:
    for job in variant["jobs"]:
        if job["kind"] == "serving" and job["together"]["transfers"]:
            beside = job["together"]
            yield (
                f"{variant['name']}: transfers of {job['name']} take {beside['transfer_slowdown']:.2f} times as long"
                f" ({beside['transfers']} of them, {numbers.seconds(beside['transfer_s'])} on average)"
            )
    rounds = variant["rounds"]
    if rounds["count"] > 1:
        yield (
            f"{variant['name']}: serving and fabric took {rounds['count']} turns; the last moved nothing by more than"
            f" {numbers.percent(rounds['moved'])}"
        )
    yield from variant["warnings"]


def _measure(figure: Mapping[str, Any]) -> str:
    return numbers.seconds(figure["step_s"] if "step_s" in figure else figure["ttft_s"]["p50"])


def _costs(job: Job) -> str:
    found = [f"{cost['job']} {100 * cost['share']:+.1f} %" for cost in job["costs"] if abs(cost["share"]) >= _VISIBLE]
    return ", ".join(found) or "none"


def _money(job: Job) -> str:
    prices = [(job[key].get("usd_per_mtoken") or {}).get("typical") for key in ("alone", "together")]
    return numbers.NOT_APPLICABLE if None in prices else " → ".join(f"${price:.3g}" for price in prices)
