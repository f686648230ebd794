"""Plans that are stopped, that verify their winner, whose designs die, and whose closed form meets a poor network."""

from __future__ import annotations

import signal
import statistics
from typing import TYPE_CHECKING, Any

import yaml

from railyard_validation.trials.trial import Case, Stop, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

_FABRICS = ("roce", "infiniband", "spectrum-x", "uec", "scheduled")
_NEAR_S = 2.0
_CLOSE = 0.05
"""Largest difference of the closed form from the flow engine, as a share of the step."""
_DRAWS = 16


def _pick(draw: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(draw.integers(len(values)))]


def _some(draw: np.random.Generator, values: Sequence[Any], count: int) -> list[Any]:
    return [values[at] for at in sorted(draw.choice(len(values), count, replace=False).tolist())]


def _write(folder: Path, name: str, document: dict[str, Any]) -> str:
    (folder / name).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return name


def _training(draw: np.random.Generator, ranks: int, **more: Any) -> dict[str, Any]:
    model = _pick(draw, ("llama-3-8b", "llama-2-13b", "qwen3-8b"))
    return {"model": model, "tokens": "1 T", "global_batch": 2 * ranks, "sequence": 4096, **more}


def _scenario(draw: np.random.Generator, ranks: int, training: dict[str, Any]) -> dict[str, Any]:
    server = _pick(draw, ("hgx-h100", "hgx-h200", "hgx-b200"))
    back_end = {"topology": "leaf-spine", "fabric": "roce"}
    cluster = {"accelerators": ranks, "server": server, "placement": "scattered", "back_end": back_end}
    return {"name": "drawn", "cluster": cluster, "workload": {"training": training}}


def _space(draw: np.random.Generator) -> dict[str, Any]:
    return {
        "fabric": _some(draw, _FABRICS, int(draw.integers(2, 5))),
        "oversubscription": _some(draw, ("1:1", "2:1", "3:1", "4:1"), int(draw.integers(2, 4))),
    }


# Stopped at any moment.


def _stopped(draw: np.random.Generator, folder: Path) -> Case:
    ranks = int(_pick(draw, (128, 256, 384)))
    document = _scenario(draw, ranks, _training(draw, ranks, parallelism="auto"))
    document["plan"] = {"space": _space(draw), "effort": {"flow": 6, "layouts": 4}}
    file = _write(folder, "plan.yaml", document)
    which = _pick(draw, (signal.SIGTERM, signal.SIGINT))
    after_s = float(_pick(draw, (0.8, 2.0, 5.0, 12.0, 25.0)) * draw.uniform(0.8, 1.2))
    command = ("plan", file, "--json", "--out", "runs")

    def judge(outputs: Sequence[Output]) -> list[str]:
        first, whole, fresh = outputs
        found = [] if first.ending_s <= _NEAR_S else [f"it ended {first.ending_s:.1f} s after the signal"]
        found += _stop_problems(first, which)
        if whole.code != 0 or whole.data["stopped"]:
            found.append("the same command does not go on to the end")
        if whole.text != fresh.text:
            found.append("what goes on gives another answer than what was never stopped")
        return found

    words = f"{ranks} ranks, {which.name} after {after_s:.1f} s"
    commands = (command, command, (*command[:-1], "fresh"))
    return Case(words, commands, judge, {0: Stop(which, after_s)})


def _stop_problems(first: Output, which: signal.Signals) -> list[str]:
    if first.ending_s == 0.0:
        return [] if first.code == 0 else [f"it ended by itself with {first.code}"]
    found = [] if first.code == 128 + which else [f"exit code {first.code}, and {128 + which} is the convention"]
    answer = first.data
    if answer["stopped"] is not True:
        found.append("the answer does not say that it was stopped")
    if answer["best"] is None and answer["front"]:
        found.append("there is a front without a best design")
    if answer["best"] is not None and answer["looked_at"]["flow"] == 0 and not answer["unverified"]:
        found.append("nothing was verified and `unverified` is empty")
    if answer["best"] is not None and first.ending_s and answer["best"] not in first.words:
        found.append("the best design so far was not printed on stderr")
    return found


trials.add(
    "plan-stopped",
    Trial(
        "plan-stopped",
        "A plan that gets SIGTERM or Ctrl-C at any moment prints valid JSON within 2 s, ends with 128 + the signal, had"
        " printed its best design so far, and goes on to the answer of a plan that was never stopped.",
        _stopped,
    ),
)


# The winner and its rivals.


def _verified(draw: np.random.Generator, folder: Path) -> Case:
    ranks = int(_pick(draw, (64, 96, 128)))
    layout = {"tp": int(_pick(draw, (2, 4, 8))), "zero": int(_pick(draw, (1, 3)))}
    document = _scenario(draw, ranks, _training(draw, ranks, parallelism=layout))
    document["plan"] = {"space": _space(draw), "effort": {"flow": int(_pick(draw, (0, 1, 2, 4))), "layouts": 0}}
    file = _write(folder, "plan.yaml", document)
    designs = len(document["plan"]["space"]["fabric"]) * len(document["plan"]["space"]["oversubscription"])
    flow = document["plan"]["effort"]["flow"]

    def judge(outputs: Sequence[Output]) -> list[str]:
        answer = outputs[0].data
        if flow == 0:
            return [] if answer["unverified"] else ["nothing was verified and `unverified` is empty"]
        return _verified_problems(answer, designs)

    return Case(f"{designs} designs of {ranks} ranks, {flow} on flow", (("plan", file, "--json"),), judge)


def _verified_problems(answer: dict[str, Any], designs: int) -> list[str]:
    verified, first = answer["verified"], answer["objectives"][0]["name"]
    found = [] if verified["engine"] in ("flow", "packet") else [f"verified on {verified['engine']}"]
    able = designs - answer["looked_at"]["failed"] - answer["looked_at"]["missed"]
    if len(verified["rivals"]) < min(4, able - 1):
        found.append(f"{len(verified['rivals'])} rivals were run, of {able - 1} there are")
    if verified["variant"] != answer["best"]:
        found.append("another design than the best was verified")
    rows = {row["variant"]: row for row in (*answer["front"], *answer["runners_up"])}
    best = rows[answer["best"]]["objectives"][first]
    for rival in verified["rivals"]:
        if rival["value"] < best:
            found.append(f"{rival['variant']} is better than the best")
        if rows[rival["variant"]]["engine"] != verified["engine"]:
            found.append(f"{rival['variant']} was judged by {rows[rival['variant']]['engine']}")
    return found


trials.add(
    "plan-verified",
    Trial(
        "plan-verified",
        "The winner's four nearest rivals ran on a named engine, none is better there; where nothing ran, `unverified`"
        " names what may win.",
        _verified,
    ),
)


# The closed form on a poor network.


def _closed(draw: np.random.Generator, folder: Path) -> Case:
    ranks = int(_pick(draw, (32, 64, 96, 128)))
    document = _scenario(draw, ranks, _training(draw, ranks, parallelism={"tp": 1, "zero": 3, "micro_batch": 1}))
    over = _pick(draw, ("1:1", "2:1", "4:1", "8:1"))
    topology = {"kind": "leaf-spine", "oversubscription": over, "ports_per_leaf": 16}
    rate = _pick(draw, ("100 Gb/s", "200 Gb/s", "400 Gb/s"))
    document["cluster"]["back_end"] = {"topology": topology, "fabric": "roce", "link_rate": rate}
    document["cluster"]["placement"] = _pick(draw, ("packed", "scattered"))
    document["workload"]["training"]["global_batch"] = ranks
    plan = {"space": {"fabric": ["roce"]}, "objectives": ["step"], "effort": {"flow": 0}}
    file = _write(folder, "poor.yaml", document | {"plan": plan})
    commands = (
        ("plan", file, "--json"),
        ("run", file, "--engine", "flow", "--set", f"repeat={_DRAWS}", "--json", "-q"),
    )

    def judge(outputs: Sequence[Output]) -> list[str]:
        design = outputs[0].data["front"][0]
        steps = outputs[1].data["variants"][0]["step"]["samples"]
        return _closed_problems(design["objectives"]["step"], design["bands"]["step"], steps)

    where = f"{ranks} ranks, {over}, {rate}, {document['cluster']['placement']}, {document['cluster']['server']}"
    return Case(where, commands, judge)


def _closed_problems(closed: float, band: dict[str, float], steps: Sequence[float]) -> list[str]:
    mean = statistics.fmean(steps)
    error = statistics.stdev(steps) / len(steps) ** 0.5
    found = []
    if abs(closed - mean) > _CLOSE * mean + 2 * error:
        found.append(f"{closed:.4g} s in closed form, {mean:.4g} s on flow ({closed / mean - 1:+.1%})")
    inside = sum(band["p10"] <= step <= band["p90"] for step in steps)
    if inside < 0.6 * len(steps):
        found.append(f"{inside} of {len(steps)} draws of hashes lie in the band of the closed form, made for 8 of 10")
    return found


trials.add(
    "plan-closed-form",
    Trial(
        "plan-closed-form",
        "Under RoCE with ZeRO-3, on slow links and oversubscribed, the closed form is within 5 % of the mean of the"
        " flow engine over draws of hashes, and its band holds most of the draws.",
        _closed,
    ),
)


# Designs that die.


def _dying(draw: np.random.Generator, folder: Path) -> Case:
    ranks = int(_pick(draw, (64, 96, 128)))
    layout = {"tp": int(_pick(draw, (2, 4))), "zero": 1, "micro_batch": 1}
    document = _scenario(draw, ranks, _training(draw, ranks, parallelism=layout))
    fabrics = _some(draw, _FABRICS, 4)
    document["cluster"]["back_end"]["topology"] = {"kind": "leaf-spine", "ports_per_leaf": 16}
    when = {} if draw.random() < 0.5 else {"at": f"{int(draw.integers(5, 60))} ms"}
    document["faults"] = [{"kind": "switch-down", "switch": "spine 0", **when}]
    compared = _write(folder, "compared.yaml", document | {"compare": {"vary": {"fabric": fabrics}}})
    planned = _write(
        folder, "planned.yaml", document | {"plan": {"space": {"fabric": fabrics}, "effort": {"flow": 4, "layouts": 0}}}
    )
    commands = (("run", compared, "--json", "-q"), ("plan", planned, "--json"))

    def judge(outputs: Sequence[Output]) -> list[str]:
        runs, answer = (output.data for output in outputs)
        outcomes = {one["settings"]["fabric"]: one["outcome"] for one in runs["variants"]}
        alive = {name for name, outcome in outcomes.items() if outcome == "finished"}
        found = []
        if alive and answer["best"] not in alive:
            found.append(f"the plan chooses {answer['best']}, and those that finish are {sorted(alive)}")
        found += [
            f"{row['variant']} has {row['outcome']} in the plan, {outcomes[row['variant']]} in the run"
            for row in (*answer["front"], *answer["runners_up"])
            if row["outcome"] != outcomes[row["variant"]]
        ]
        return found

    return Case(f"{ranks} ranks, {fabrics}, spine 0 down {when}", commands, judge)


trials.add(
    "plan-dying",
    Trial(
        "plan-dying",
        "A plan chooses a design that finishes wherever one does, and says of each the outcome that `run` says.",
        _dying,
    ),
)
