"""Layouts: what `auto` prints is typed again, nothing near it is faster, and DualPipe pays for itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy as np

    from railyard_validation.trials.trial import Output

    Judge = Callable[[Sequence[Output]], list[str]]

LAYERS = {"llama-3-8b": 32, "llama-2-13b": 40, "llama-3-70b": 80, "mixtral-8x7b": 32, "mixtral-8x22b": 56}
LAYERS |= {"qwen3-30b-a3b": 48, "deepseek-v3": 61, "qwen3-235b-a22b": 94, "kimi-k2": 61, "deepseek-v2": 60}
EXPERTS = {"mixtral-8x7b": 8, "mixtral-8x22b": 8, "qwen3-30b-a3b": 128}


def scenario(folder: Path, name: str, cluster: dict[str, Any], training: dict[str, Any], engine: str = "flow") -> str:
    """Writes a scenario of a training job, and gives the name of its file.

    Args:
        folder: Of the case.
        name: Of the scenario, and of its file.
        cluster: Its section.
        training: Its section under `workload`.
        engine: Its engine.
    """
    content = {"name": name, "engine": engine, "cluster": cluster, "workload": {"training": training}}
    (folder / f"{name}.yaml").write_text(json.dumps(content, indent=1), encoding="utf-8")
    return f"{name}.yaml"


def network(draw: np.random.Generator) -> dict[str, Any]:
    """A back-end network: a topology, its oversubscription and a fabric."""
    kind = str(draw.choice(["leaf-spine", "rail-optimized", "fat-tree"]))
    topology = {"kind": kind, "oversubscription": str(draw.choice(["1:1", "2:1", "4:1"]))}
    if kind == "fat-tree":
        topology = {"kind": kind}
    return {"topology": topology, "fabric": str(draw.choice(["roce", "infiniband", "uec", "spectrum-x"]))}


def job(
    draw: np.random.Generator, models: Sequence[str], sizes: Sequence[int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A cluster and a training job whose layout is left open."""
    ranks = int(draw.choice(sizes))
    server = str(draw.choice(["hgx-h100", "dgx-h100", "hgx-h200", "hgx-b200"]))
    training = {
        "model": str(draw.choice(models)),
        "global_batch": ranks * int(draw.choice([1, 2, 4])),
        "sequence": int(draw.choice([4096, 8192])),
        "precision": str(draw.choice(["bf16", "fp8"])),
    }
    return {"accelerators": ranks, "server": server, "back_end": network(draw)}, training


def words(cluster: dict[str, Any], training: dict[str, Any], *more: str) -> str:
    """A drawn scenario in words."""
    topology, fabric = cluster["back_end"]["topology"], cluster["back_end"]["fabric"]
    where = f"{cluster['accelerators']} {cluster['server']}, {' '.join(topology.values())} {fabric}"
    what = f"{training['model']} {training['precision']} batch {training['global_batch']} x {training['sequence']}"
    return ", ".join([what, where, *more])


def typed(file: str, parallelism: dict[str, Any]) -> list[str]:
    """The command that runs a scenario under a layout."""
    return ["run", file, "--json", "-q", "--set", f"workload.training.parallelism={json.dumps(parallelism)}"]


def step_s(output: Output) -> float:
    """Step of the first variant, in seconds."""
    return float(output.data["variants"][0]["step"]["seconds"])


def _typed_again(draw: np.random.Generator, folder: Path) -> Case:
    engine = str(draw.choice(["flow", "flow", "analytic", "packet"]))
    models, sizes = (["llama-3-8b"], [8, 16]) if engine == "packet" else (list(LAYERS)[:6], [16, 32, 64])
    cluster, training = job(draw, models, sizes)
    if engine == "packet":
        training |= {"global_batch": cluster["accelerators"], "sequence": 4096}
    given = [{"auto": True}, {"auto": True, "zero": 1}, {"auto": True, "micro_batch": 1}][int(draw.integers(3))]
    file = scenario(folder, "open", cluster, {**training, "parallelism": given}, engine)
    first = ["run", file, "--json", "-q", "--out", "runs"]

    def then(outputs: Sequence[Output]) -> list[list[str]]:
        variant = outputs[0].data["variants"][0]
        rows = [row for row in variant["layouts"] if row["simulated"]]  # `estimated` promises no last digit
        saved = next((folder / "runs").glob("*/scenario.yaml"))
        again = ["run", str(saved), "--json", "-q"]
        return [again, typed(file, variant["layout"]["parallelism"]), *(typed(file, _pasted(row)) for row in rows[1:4])]

    def judge(outputs: Sequence[Output]) -> list[str]:
        variant = outputs[0].data["variants"][0]
        promised = [variant["step"]["seconds"]] * 2
        rows = [row for row in variant["layouts"] if row["simulated"]]
        promised += [row["step_seconds"] for row in rows[1:4]] if engine != "packet" else []
        saved, mapping = (
            outputs[1].data["scenario"]["workload"]["training"]["parallelism"],
            variant["layout"]["parallelism"],
        )
        problems = [] if mapping.items() <= saved.items() else [f"the saved scenario holds {saved}"]
        for place, (seconds, output) in enumerate(zip(promised, outputs[1:], strict=False)):
            if output.code or step_s(output) != seconds:
                got = output.words[:200] if output.code else f"{step_s(output)!r} s"
                problems.append(f"typed layout {place}: {got}, promised {seconds!r} s")
        return problems

    return Case(words(cluster, training, engine, str(given)), [first], judge, then=then)


def _pasted(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = row["layout"]["parallelism"]
    return found


def _fastest(draw: np.random.Generator, folder: Path) -> Case:
    models = ["llama-3-8b", "llama-2-13b", "mixtral-8x7b", "qwen3-30b-a3b", "mixtral-8x22b", "llama-3-70b"]
    cluster, training = job(draw, models, [16, 32, 64])
    if training["model"] in ("mixtral-8x22b", "llama-3-70b"):
        cluster["accelerators"] = 64
    training["global_batch"] = 4 * cluster["accelerators"]
    file = scenario(folder, "open", cluster, training)

    def then(outputs: Sequence[Output]) -> list[list[str]]:
        best = outputs[0].data["variants"][0]["layout"]["parallelism"]
        near = list(_near(best, training))
        far = list(_anywhere(draw, cluster["accelerators"], training))
        return [typed(file, one) for one in [*near, *far]]

    def judge(outputs: Sequence[Output]) -> list[str]:
        chosen = step_s(outputs[0])
        rivals = [(step_s(one), one.data["variants"][0]["layout"]["words"]) for one in outputs[1:] if not one.code]
        if len(rivals) < 8:
            return [f"only {len(rivals)} of {len(outputs) - 1} rivals ran"]
        step, name = min(rivals)
        return [f"{name} takes {step:.4g} s, auto {chosen:.4g} s"] if chosen > 1.02 * step else []

    return Case(words(cluster, training), [["run", file, "--json", "-q"]], judge, then=then)


def _near(best: dict[str, Any], training: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Layouts one change away from a given one; some of them are impossible."""
    plain = {name: value for name, value in best.items() if name not in ("schedule", "dp")}
    layers, pp = LAYERS[training["model"]], plain["pp"]
    for name in ("tp", "pp", "cp", "ep", "micro_batch"):
        for size in (plain[name] * 2, plain[name] // 2):
            if size:
                yield {**plain, name: size, "vp": plain["vp"] if name != "pp" else 1}
    for vp in {n for ends in (0, 1, 2) for n in range(1, 1 + (layers + ends) // pp) if (layers + ends) % (pp * n) == 0}:
        if vp != plain["vp"] and pp > 1:
            yield {**plain, "vp": vp}
            yield {**plain, "vp": vp, "schedule": "zero-bubble"}
    for changes in (
        {"recompute": "full"},
        {"recompute": "selective"},
        {"recompute_modules": ["layernorm"]},
        {"overlap_tensor": not plain.get("overlap_tensor", False)},
        {"overlap_expert": not plain.get("overlap_expert", False)},
        {"zero": 3 if plain["zero"] == 1 else 1},
        {"vp": 1, "schedule": "dualpipe", "overlap_expert": True},
        {"vp": 1, "schedule": "zero-bubble", "overlap_expert": True},
    ):
        yield {**plain, **changes}


def _anywhere(draw: np.random.Generator, ranks: int, training: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Layouts drawn from all that divide the ranks."""
    experts = EXPERTS.get(training["model"], 1)
    for _ in range(8):
        tp, pp, cp = (int(draw.choice([1, 2, 4, 8])) for _ in range(3))
        ep = int(draw.choice([n for n in (1, 2, 4, 8) if experts % n == 0]))
        if ranks % (tp * pp * cp):
            continue
        vp = int(draw.choice([n for n in range(1, 9) if LAYERS[training["model"]] % (pp * n) == 0] or [1]))
        sizes = {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "vp": vp if pp > 1 else 1}
        yield {**sizes, "micro_batch": int(draw.choice([1, 2])), "overlap_tensor": tp > 1, "zero": 1}


def _dualpipe(draw: np.random.Generator, folder: Path) -> Case:
    model = str(draw.choice(["deepseek-v3", "deepseek-v2", "qwen3-235b-a22b", "kimi-k2"]))
    pp, ep = int(draw.choice([4, 8, 16])), int(draw.choice([8, 16, 32]))
    dp = ep * int(draw.choice([1, 2]))
    server = str(draw.choice(["hgx-h800", "hgx-h100", "hgx-h200"]))
    cluster = {"accelerators": pp * dp, "server": server, "back_end": network(draw)}
    training = {"model": model, "global_batch": dp * pp * int(draw.choice([4, 6, 8])), "sequence": 4096}
    training["precision"] = str(draw.choice(["bf16", "fp8"]))
    layout = {"pp": pp, "ep": ep, "micro_batch": 1, "zero": 1, "recompute": "full", "overlap_expert": True}
    # A device that holds both stages of every model: the question is time, not memory.
    file = scenario(
        folder, "dual", cluster, {**training, "parallelism": layout}, str(draw.choice(["analytic", "flow"]))
    )
    commands = [typed(file, {**layout, "schedule": name}) for name in ("1f1b", "zero-bubble", "dualpipe")]
    for command in commands:
        command += ["--set", "cluster.overrides.accelerator.memory=640 GB"]

    def judge(outputs: Sequence[Output]) -> list[str]:
        plain, zero, dual = (step_s(one) for one in outputs)
        # Weight products that are launched by themselves may wait for the host: that is no bubble.
        one_pass, two_passes = (_without_host_s(one) for one in outputs[:2])
        text = f"1F1B {plain:.5g} s, zero-bubble {zero:.5g} s, DualPipe {dual:.5g} s"
        return [text] if dual > 1.001 * zero or two_passes > 1.001 * one_pass else []

    return Case(words(cluster, training, f"PP {pp} DP {dp} EP {ep}"), commands, judge)


def _without_host_s(output: Output) -> float:
    """Step less what it waits for the host to launch kernels, in seconds."""
    return step_s(output) * (1.0 - float(output.data["variants"][0]["tax"]["rest"].get("host", 0.0)))


trials.add(
    "layout-typed",
    Trial(
        "layout-typed", "the printed layouts and the saved scenario give the same step to the last digit", _typed_again
    ),
)
trials.add("layout-fastest", Trial("layout-fastest", "no rival is faster than auto by more than 2 %", _fastest))
trials.add(
    "layout-dualpipe",
    Trial(
        "layout-dualpipe",
        "DualPipe is no slower than zero-bubble, nor that than 1F1B but for kernel launches",
        _dualpipe,
    ),
)
