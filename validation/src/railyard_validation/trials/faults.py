"""Faults in comparisons: who leads when jobs die, what a fault line hits, and what a comparison does not show."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

FABRICS = ("roce", "infiniband", "spectrum-x", "uec", "scheduled", "ideal")
REPAIR_S = 1.3158 * 86_400  # median of the InfiniteHBD trace, the documented default of `recovery.repair`
DAY_S = 86_400.0


def step_scenario(random: np.random.Generator, **cluster: Any) -> dict[str, Any]:
    """A small data-parallel job that crosses the spines of a leaf-spine network."""
    leaf = int(random.choice([8, 16]))
    accelerators = int(random.choice([32, 48, 64, 96]))
    return {
        "name": "trial",
        "cluster": {
            "accelerators": accelerators,
            "server": str(random.choice(["hgx-h100", "hgx-b200"])),
            "placement": "scattered",
            "back_end": {
                "topology": {"kind": "leaf-spine", "oversubscription": "1:1", "ports_per_leaf": leaf},
                "fabric": "roce",
            },
            **cluster,
        },
        "workload": {
            "training": {
                "model": str(random.choice(["llama-3.2-1b", "llama-3-8b"])),
                "tokens": f"{int(random.choice([50, 200, 500]))} B",
                "global_batch": accelerators,
                "sequence": 2048,
                "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1, "recompute": "none"},
            }
        },
    }


def write(folder: Path, scenario: Mapping[str, Any], name: str = "trial.yaml") -> str:
    """Writes a scenario; JSON is YAML."""
    (folder / name).write_text(json.dumps(scenario), encoding="utf-8")
    return name


def some(random: np.random.Generator, count: int, among: Sequence[str] = FABRICS) -> list[str]:
    """So many of them, in their order."""
    chosen = set(random.choice(list(among), count, replace=False).tolist())
    return [one for one in among if one in chosen]


def first_sentence(text: str) -> str:
    """The sentence below the tables of `railyard run`."""
    words = [part for part in text.split("\n\n")[1:] if ". " in part or part.rstrip().endswith(".")]
    return re.split(r"(?<=[.!?])\s", words[0].strip(), maxsplit=1)[0] if words else ""


def spines(variant: Mapping[str, Any]) -> int:
    """Spines of a variant's network."""
    return int(sum(row["count"] for row in variant["topology"]["switches"] if row["role"] == "spine"))


def tier_cables(variant: Mapping[str, Any], tier: str) -> int:
    """Cables of a tier; the result counts links one way each."""
    return int(sum(row["links"] for row in variant["network"]["tiers"] if row["name"] == tier)) // 2


def named(names: Sequence[str], sentence: str, everybody: int) -> Iterator[str]:
    """Problems with a sentence that has to name variants."""
    if len(names) == everybody and re.search(r"\b(all|every|each|both)\b", sentence, re.IGNORECASE):
        return
    missing = [name for name in names if name not in sentence]
    if missing:
        yield f"the first sentence does not name {', '.join(missing)}: {sentence!r}"


def outcome_problems(result: Mapping[str, Any], dead: Sequence[str]) -> Iterator[str]:
    """Outcomes, the leading variant and the bound, where these variants die."""
    found = {one["name"]: one["outcome"] for one in result["variants"]}
    wanted = {name: "died" if name in dead else "finished" for name in found}
    if found != wanted:
        yield f"outcomes {found}, expected {wanted}"
    alive = [name for name in found if name not in dead and name != "ideal"]
    leading = result["verdict"]["leading"]
    if (leading is None) != (not alive) or (leading is not None and leading not in alive):
        yield f"{leading} leads, of {alive} that finish and can be bought"
    if result["verdict"]["bound"] != ("ideal" if "ideal" in found else None):
        yield f"the bound is {result['verdict']['bound']}"


def money_problems(variant: Mapping[str, Any], accelerators: int) -> Iterator[str]:
    """Dollars a token against dollars an hour times the job's time."""
    jct, cpmt = variant["jct"], variant["cpmt"]
    paid = cpmt["usd_per_gpu_h"]["typical"] * accelerators * jct["seconds"] / 3600 / jct["tokens"] * 1e6
    if abs(cpmt["typical"] / paid - 1) > 0.01:
        yield f"{variant['name']}: ${cpmt['typical']:.4g} a million tokens, its time costs ${paid:.4g}"


def dead_spine(random: np.random.Generator, folder: Path) -> Case:
    """A spine that is dead from the start: where it is the only one, the job cannot run until it is repaired."""
    scenario = step_scenario(random)
    fabrics = some(random, 3)
    scenario |= {"compare": {"vary": {"fabric": fabrics}}, "faults": [{"kind": "switch-down", "switch": "spine 0"}]}
    name, accelerators = write(folder, scenario), scenario["cluster"]["accelerators"]

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        result = outputs[0].data
        dead = [one["name"] for one in result["variants"] if one["name"] != "ideal" and spines(one) == 1]
        yield from outcome_problems(result, dead)
        for one in result["variants"]:
            yield from money_problems(one, accelerators)
            if one["name"] in dead and one["jct"]["seconds"] < one["jct"]["steps"] * one["step"]["p50_s"] + REPAIR_S:
                yield f"{one['name']}: {one['jct']['seconds'] / DAY_S:.3g} d do not hold the repair"
            if one["name"] in dead and one["step"]["seconds"] <= 1.001 * one["step"]["p50_s"]:
                yield f"{one['name']}: the mean step does not hold the death"
        if dead:
            yield from named(dead, first_sentence(outputs[1].text), len(result["variants"]))

    words = f"{accelerators} GPUs, leafs of {scenario['cluster']['back_end']['topology']['ports_per_leaf']}, {fabrics}"
    return Case(words, [["run", name, "--json"], ["run", name]], judge)


def dying_spine(random: np.random.Generator, folder: Path) -> Case:
    """The only spine dies in a step: every variant loses the same days, by the parts of the recovery."""
    scenario = step_scenario(random)
    scenario["cluster"]["back_end"]["topology"]["spines"] = 1
    fabrics = some(random, 3, ("roce", "spectrum-x", "uec", "scheduled"))
    repair_h, diagnosis_min = int(random.integers(2, 200)), int(random.integers(1, 60))
    recovery = {"repair": f"{repair_h} h", "diagnosis": f"{diagnosis_min} min"}
    scenario |= {"compare": {"vary": {"fabric": fabrics}}, "recovery": recovery}
    healthy = write(folder, scenario, "healthy.yaml")
    at_ms = int(random.integers(1, 40))
    fault = {"kind": "switch-down", "switch": "spine 0", "at": f"{at_ms} ms"}
    name = write(folder, {**scenario, "faults": [fault]})
    # Abort by NCCL's retries, diagnosis, repair, start of the processes, half an interval of half an hour.
    lost_s = 4.096e-6 * 2**20 * 7 + diagnosis_min * 60 + repair_h * 3600 + 374 + 900

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        result, plain = outputs[0].data, {one["name"]: one for one in outputs[2].data["variants"]}
        yield from outcome_problems(result, fabrics)
        for one in result["variants"]:
            before = plain[one["name"]]
            more_s = one["jct"]["seconds"] - before["jct"]["seconds"]
            if abs(more_s / lost_s - 1) > 0.01:
                yield f"{one['name']}: the job takes {more_s:.0f} s longer, {lost_s:.0f} s are lost"
            dearer = one["cpmt"]["typical"] / before["cpmt"]["typical"]
            longer = one["jct"]["seconds"] / before["jct"]["seconds"]
            if abs(dearer / longer - 1) > 0.01:
                yield f"{one['name']}: {dearer:.4f} times the dollars for {longer:.4f} times the time"
        yield from named(fabrics, first_sentence(outputs[1].text), len(fabrics))

    return Case(
        f"{scenario['cluster']['accelerators']} GPUs, {fabrics}, at {at_ms} ms, repair in {repair_h} h",
        [["run", name, "--json"], ["run", name], ["run", healthy, "--json"]],
        judge,
    )


def one_cable(random: np.random.Generator, folder: Path) -> Case:
    """A cable is one cable on every fabric; a bundle is asked for."""
    scenario = step_scenario(random)
    fabrics = some(random, 2, ("roce", "infiniband", "spectrum-x", "uec", "scheduled"))
    kind = str(random.choice(["degrade-link", "link-down"]))
    leaf = int(random.integers(0, scenario["cluster"]["accelerators"] // 16))
    cable: dict[str, Any] = {"kind": kind, "cable": f"leaf {leaf} - spine 0"}
    if kind == "degrade-link":
        cable["factor"] = f"{int(random.integers(2, 9)) * 10} %"
    scenario["compare"] = {"vary": {"fabric": fabrics}}
    one = write(folder, {**scenario, "faults": [cable]}, "one.yaml")
    bundle = {**cable, "cables": "all"}
    every = write(folder, {**scenario, "faults": [bundle | {"for": "2 s"}]}, "all.yaml")
    down = scenario["cluster"]["back_end"]["topology"]["ports_per_leaf"]

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        for output, whole in ((outputs[0], False), (outputs[2], True)):
            for variant in output.data["variants"]:
                (fault,) = variant["faults"]
                most = tier_cables(variant, "leaf-spine")
                # A leaf's uplinks are spread evenly over the spines: at 1:1 as many as it has ports to NICs.
                links = tier_cables(variant, "leaf-spine") // leafs(variant) // spines(variant) if whole else 1
                if fault["links"] != links or abs(fault["share"] - links / most) > 1e-9:
                    yield (
                        f"{variant['name']}: {fault['links']} links, {fault['share']:.3g} of the tier,"
                        f" expected {links} of {most}"
                    )
        hit = {one["faults"][0]["links"] for one in outputs[2].data["variants"]}
        said = outputs[3].text.lower()
        if len(hit) > 1 and not re.search(r"differ|not the same", said):
            yield f"{sorted(hit)} links were hit and nothing says that they differ"
        if "links" not in outputs[1].text or "%" not in outputs[1].text:
            yield "the comparison does not print how many links were hit and their share"

    words = f"{scenario['cluster']['accelerators']} GPUs, leafs of {down}, {fabrics}, {cable}"
    return Case(words, [["run", one, "--json"], ["run", one], ["run", every, "--json"], ["run", every]], judge)


def leafs(variant: Mapping[str, Any]) -> int:
    """Leafs of a variant's network."""
    return int(sum(row["count"] for row in variant["topology"]["switches"] if row["role"] == "leaf"))


def bound(random: np.random.Generator, folder: Path) -> Case:
    """The crossbar is a bound: it never leads, and the distance from it is told."""
    scenario = step_scenario(random)
    scenario["cluster"]["background"] = [{"network": "back_end", "load": f"{int(random.integers(1, 6)) * 10} %"}]
    fabrics = [*some(random, 2, FABRICS[:-1]), "ideal"]
    name = write(folder, {**scenario, "compare": {"vary": {"fabric": fabrics}}})

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        result = outputs[0].data
        yield from outcome_problems(result, [])
        sentence = first_sentence(outputs[1].text)
        if sentence.startswith("ideal"):
            yield f"the sentence begins with the bound: {sentence!r}"
        products = [one for one in result["variants"] if one["name"] != "ideal"]
        best = min(products, key=lambda one: one["cpmt"]["typical"])["name"]
        if result["verdict"]["leading"] != best:
            yield f"{result['verdict']['leading']} leads, {best} costs least of what can be bought"
        if "bound" not in outputs[1].text or "ideal" not in outputs[1].text:
            yield "the words do not say how far the bound is"

    return Case(
        f"{scenario['cluster']['accelerators']} GPUs, {fabrics}", [["run", name, "--json"], ["run", name]], judge
    )


SERVICE = {
    "name": "first",
    "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "serving": {
            "model": "llama-3-70b",
            "precision": "fp8",
            "requests": {"synthetic": {"rate": 4, "input": 900, "output": 150, "count": 300}},
            "pools": {"both": {"replicas": 4, "tp": 4}},
            "slo": {"ttft": "1 s", "tpot": "40 ms"},
        }
    },
}


def other_work(random: np.random.Generator, folder: Path) -> Case:
    """Runs of different work have no winner."""
    what = str(random.choice(["rate", "input", "model", "tokens", "sequence", "global_batch"]))
    if what in ("rate", "input"):
        one, other = json.loads(json.dumps([SERVICE, SERVICE]))
        requests = other["workload"]["serving"]["requests"]["synthetic"]
        requests[what] = int(requests[what] * (2 + random.integers(0, 2)))
    else:
        one = step_scenario(random)
        other = json.loads(json.dumps(one))
        job = other["workload"]["training"]
        another = "llama-3-8b" if job["model"] == "llama-3.2-1b" else "llama-3.2-1b"
        changes = {"model": another, "tokens": "700 B", "sequence": 4096, "global_batch": 2 * job["global_batch"]}
        job[what] = changes[what]
    first, second = (
        write(folder, {**one, "name": "first"}, "first.yaml"),
        write(folder, {**other, "name": "second"}, "second.yaml"),
    )
    commands = [["run", first, "--quiet"], ["run", second, "--quiet"]]
    commands += [["compare", "runs/first-*", "runs/second-*", "--json"], ["compare", "runs/first-*", "runs/second-*"]]

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        verdict = outputs[2].data.get("verdict")
        if verdict is not None and (verdict["leading"] is not None or verdict["best"] is not None):
            yield f"{verdict['leading']} leads though `{what}` differs"
        names = [one["name"] for one in outputs[2].data["variants"]]
        if names != ["first", "second"]:
            yield f"variants {names}"
        said = outputs[3].text
        if re.search(r"(first|second)[^.]*\b(is best|leads|wins|comes out best|more tokens|costs least)\b", said):
            yield f"a winner is named: {first_sentence(said)!r}"
        if what not in said:
            yield f"the words do not name `{what}`, in which the two differ"

    return Case(f"`{what}` differs", commands, judge)


def unexercised(random: np.random.Generator, folder: Path) -> Case:
    """Oversubscription of spines that nothing crosses: said, with the number of servers from which it would matter."""
    rails = bool(random.integers(0, 2))
    servers = int(random.integers(2, 6))
    width = max(4, int(random.integers(servers, 9)))  # a leaf of three ports has no uplink at 4:1
    size = {"servers_per_leaf": width} if rails else {"ports_per_leaf": 8 * width}
    topology = {"kind": "rail-optimized" if rails else "leaf-spine", **size}
    scenario = step_scenario(random, accelerators=8 * servers, placement="packed")
    scenario["cluster"]["back_end"]["topology"] = topology
    scenario["workload"]["training"]["global_batch"] = 8 * servers
    scenario["compare"] = {"vary": {"oversubscription": ["1:1", "2:1", "4:1"]}}
    name = write(folder, scenario)

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        said = outputs[0].text
        if not re.search(r"does not cross", said):
            yield f"nothing says that the job does not cross the spines: {first_sentence(said)!r}"
        if f"from {width + 1} servers" not in said:
            yield f"the words do not say `from {width + 1} servers`"

    return Case(f"{servers} servers below leafs of {width}, {topology['kind']}", [["run", name]], judge)


def slow_nic(random: np.random.Generator, folder: Path) -> Case:
    """A run with a slow NIC names it and what it costs, before any remedy."""
    scenario = step_scenario(random)
    scenario["cluster"]["placement"] = "packed"
    scenario["cluster"]["back_end"]["topology"]["ports_per_leaf"] = 8
    scenario["cluster"]["back_end"]["fabric"] = str(random.choice(["roce", "infiniband", "spectrum-x", "uec"]))
    server = int(random.integers(0, scenario["cluster"]["accelerators"] // 8))
    cable = f"server {server} nic {int(random.integers(0, 8))} - leaf {server}"
    fault = {"kind": "degrade-link", "cable": cable, "factor": f"{int(random.integers(20, 60))} %"}
    healthy = write(folder, scenario, "healthy.yaml")
    name = write(folder, {**scenario, "faults": [fault]})

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        (one,), (plain,) = outputs[0].data["variants"], outputs[2].data["variants"]
        without_s = one["step"]["without_faults_s"]
        if abs(without_s / plain["step"]["seconds"] - 1) > 1e-6:
            yield f"{without_s:.6g} s without the fault, {plain['step']['seconds']:.6g} s where there is none"
        if one["step"]["seconds"] < without_s:
            yield "the fault makes the step shorter"
        if one["outcome"] != "finished" or one["faults"][0]["links"] != 1:
            yield f"{one['outcome']}, {one['faults'][0]['links']} links"
        lost = 1 - plain["step"]["seconds"] / one["step"]["seconds"]
        if abs(one["fault_cost"]["tokens_lost"] - lost) > 1e-6:
            yield f"{one['fault_cost']['tokens_lost']:.6g} of the tokens are said to be lost, {lost:.6g} are"
        if one["bottleneck"]["changes"][0]["settings"] != {"faults": []}:
            yield f"the first remedy is {one['bottleneck']['changes'][0]['name']}, not the repair"
        sentence = first_sentence(outputs[1].text)
        if f"server {server}" not in sentence.lower() or "without" not in sentence:
            yield f"the first sentence does not name the fault and the step without it: {sentence!r}"

    commands = [["run", name, "--json"], ["run", name], ["run", healthy, "--json"]]
    return Case(f"{scenario['cluster']['accelerators']} GPUs, {fault}", commands, judge)


def checked(random: np.random.Generator, folder: Path) -> Case:
    """`check` knows that a job died: a bound on its step does not hold, however generous."""
    scenario = step_scenario(random)
    scenario["cluster"]["back_end"]["topology"]["spines"] = 1
    host = int(random.integers(0, scenario["cluster"]["accelerators"] // 8))
    deadly = [
        {"kind": "switch-down", "switch": "spine 0"},
        {"kind": "host-down", "host": host, "at": "2 ms"},
        {"kind": "nic-down", "host": host, "nic": int(random.integers(0, 8)), "at": "1 ms"},
    ]
    fault = deadly[int(random.integers(0, 3))]
    scenario |= {"faults": [fault], "check": ["step < 1000 h", "gpu_utilization > 0 %"]}
    name = write(folder, scenario)

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        if outputs[0].code != 1:
            yield f"exit code {outputs[0].code}"
        for row in outputs[0].data["checks"]:
            if row["holds"] or "die" not in row["found"]:
                yield f"`{row['assertion']}`: holds {row['holds']}, {row['found']}"

    return Case(f"{fault}", [["check", name, "--json"]], judge)


def planned(random: np.random.Generator, folder: Path) -> Case:
    """`plan` does not choose a design whose job dies while another survives."""
    scenario = step_scenario(random)
    scenario["cluster"] |= {"accelerators": 64, "placement": "packed"}
    scenario["workload"]["training"] |= {"global_batch": 64, "tokens": "20 B"}
    scenario["cluster"]["back_end"]["topology"] = {
        "kind": "leaf-spine",
        "ports_per_leaf": 16,
        "oversubscription": "1:1",
    }
    scenario["cluster"]["back_end"]["fabric"] = str(random.choice(["roce", "spectrum-x", "uec"]))
    several = int(random.choice([2, 4, 8]))
    key = "cluster.back_end.topology.spines"
    space = {key: [1, several]}
    scenario |= {
        "faults": [{"kind": "switch-down", "switch": "spine 0", "at": "1 ms"}],
        "plan": {"space": space, "objectives": ["cpmt"], "effort": {"flow": 2, "layouts": 0, "draws": 100}},
    }
    name = write(folder, scenario)

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        plan = outputs[0].data
        by_spines = {row["settings"][key]: row for row in (*plan["front"], *plan["runners_up"])}
        dead = [row["settings"][key] for row in plan["ended"]]
        if plan["best"] != by_spines[several]["variant"] or by_spines[several]["outcome"] != "finished":
            yield f"{plan['best']} is chosen, not {several} spines"
        if dead != [1]:
            yield f"designs with {dead} spines are said to die"
        elif plan["ended"][0]["lost_s"] < REPAIR_S:
            yield f"{plan['ended'][0]['lost_s']:.0f} s do not hold the repair"

    return Case(
        f"1 or {several} spines, {scenario['cluster']['back_end']['fabric']}", [["plan", name, "--json"]], judge
    )


def operated(random: np.random.Generator, folder: Path) -> Case:
    """`operate` plays a dead host of the scenario, and refuses a fault that it cannot play."""
    servers = int(random.choice([4, 8]))
    hours = int(random.integers(3, 30))
    scenario = {
        "name": "trial",
        "cluster": {
            "accelerators": 8 * servers,
            "server": "hgx-h100",
            "back_end": {"topology": "rail-optimized", "fabric": "roce"},
        },
        "workload": {
            "operate": {"jobs": {"trace": "jobs.csv"}, "recovery": {"interval": "30 min", "checkpoint": "async"}}
        },
        "recovery": {"repair": "5 h"},
    }
    rows = ["submit_s,duration_s,accelerators", f"0,{48 * 3600},{8 * servers}"]
    (folder / "jobs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    fault = {"kind": "host-down", "host": int(random.integers(0, servers)), "at": f"{hours} h"}
    healthy = write(folder, scenario, "healthy.yaml")
    name = write(folder, {**scenario, "faults": [fault]})
    unknown = write(
        folder,
        {**scenario, "faults": [{"kind": "degrade-link", "tier": "leaf-spine", "factor": "50 %"}]},
        "unknown.yaml",
    )

    def judge(outputs: Sequence[Output]) -> Iterator[str]:
        if any(output.code for output in outputs[:2]):
            yield f"exit codes {[output.code for output in outputs]}: {outputs[1].words.strip()[:200]}"
            return
        before, after = (output.data["variants"][0]["operate"] for output in outputs[:2])
        longer_h = (after["jct_s"]["mean"] - before["jct_s"]["mean"]) / 3600
        # 5 h of repair, a restart of 400 s, at most half an hour of work again, and copies for checkpoints (1 %).
        if not 4.9 < longer_h < 6.2:
            yield f"the job ends {longer_h:.2f} h later, 5 h of repair and a restart were due"
        if outputs[2].code != 2:
            yield f"a fault that months of jobs cannot feel is taken without a word (exit code {outputs[2].code})"

    commands = [["run", healthy, "--json"], ["run", name, "--json"], ["run", unknown, "--json"]]
    return Case(f"{servers} servers, {fault}", commands, judge)


for name, expected, draw in (
    (
        "fault-dead-spine",
        "a job that cannot run has died, never leads, and its days are in time and dollars",
        dead_spine,
    ),
    (
        "fault-dying-spine",
        "the parts of the recovery are in JCT and dollars, and the death in the sentence",
        dying_spine,
    ),
    ("fault-cable", "a cable is one cable; links hit and their share are printed for every variant", one_cable),
    ("fault-bound", "`ideal` is the bound, and the best product leads", bound),
    ("fault-other-work", "runs of different work have no winner", other_work),
    ("fault-unexercised", "a comparison that exercises nothing of what it varies says so", unexercised),
    ("fault-slow-nic", "a run with a fault names it and its cost first", slow_nic),
    ("fault-check", "`check` knows that a job died", checked),
    ("fault-plan", "`plan` does not choose a design whose job dies", planned),
    ("fault-operate", "`operate` plays the scenario's faults, or refuses them", operated),
):
    trials.add(name, Trial(name, expected, draw))
