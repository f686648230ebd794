"""What is refused between keys, where the error points, and what is only unusual."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest
from tests.fuzz.scenarios import BASES, places, put

from railyard import catalog
from railyard.ask.observe.answer import cluster_of
from railyard.catalog.store import KINDS
from railyard.face import api
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.kit.schema.field import records
from railyard.work.operate.prepare import prepare as prepare_operation
from railyard.work.scenario import load, override
from railyard.work.scenario.packet import mix
from railyard.work.scenario.problems import known
from railyard.work.study import compose
from railyard.work.study.folder import files_of
from railyard.work.study.study import prepare
from railyard.work.training.prepare import engine_of

SRC = Path(__file__).parents[3] / "src" / "railyard"
TRAINING = "workload.training"


def refused(tmp_path, changes, kind="training", varies=()):
    """The problems of a small scenario with changes by dotted key, each with its line."""
    root = BASES[kind]
    for key, value in changes.items():
        root = put(root, [int(step) if step.isdecimal() else step for step in key.split(".")], value)
    file = tmp_path / "s.yaml"
    file.write_text(yaml.to_text(root), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        prepare(load.load(file), varies)
    found = {problem.key: problem for problem in caught.value.problems}
    assert None not in found
    assert varies or all(problem.file == str(file) and problem.line for problem in found.values())
    return found


def test_loads_of_others_on_one_tier_add_up(tmp_path):
    """60 % and 60 % are 120 %: they left 16 % of the tier when shares of what is left were taken."""
    loads = [{"tier": "leaf-spine", "load": "60 %"}, {"tier": "leaf-spine", "load": "60 %"}]
    (problem,) = refused(tmp_path, {"cluster.background": loads}).values()
    assert problem.key == "cluster.background.1.load"
    assert problem.allowed == "less than 0.4"


def test_a_job_that_fails_while_it_restarts_is_refused_before_a_step_is_simulated(tmp_path):
    """Restarts of 900 s on 16 GPUs: e^30 is reached at 30 s between failures of the job, 480 s of a GPU."""
    ranks = prepare(load.from_values(BASES["training"]))[0].cluster.ranks
    restarts = {"economics.restart": "900 s"}
    (problem,) = refused(tmp_path, {**restarts, "economics.mtbf": f"{29 * ranks} s"}).values()
    assert problem.key == "economics.mtbf"
    assert problem.message.startswith("the job would never end")
    assert problem.allowed == "at least 30 s for the whole job"
    values = put(BASES["training"], ["economics"], {"restart": "900 s", "mtbf": f"{31 * ranks} s"})
    assert prepare(load.from_values(values))


def test_two_loads_leave_what_their_sum_leaves(tmp_path):
    def rates(*loads):
        values = put(
            BASES["training"], ["cluster", "background"], [{"tier": "leaf-spine", "load": one} for one in loads]
        )
        (job,) = prepare(load.from_values(values))
        return float(job.cluster.links.rate_bps.sum())

    assert rates("20 %", "30 %") == pytest.approx(rates("50 %"), rel=1e-12)
    assert rates("50 %") < rates("44 %")  # 1 - 0.8 x 0.7


@pytest.mark.parametrize(
    ("kind", "changes", "key", "allowed"),
    [
        (
            "training",
            {f"{TRAINING}.parallelism": {"tp": 8, "vp": 4}},
            f"{TRAINING}.parallelism.vp",
            "`pp` of at least 2",
        ),
        (
            "training",
            {f"{TRAINING}.global_batch": 3, f"{TRAINING}.parallelism": {"tp": 1}},
            f"{TRAINING}.global_batch",
            "16",
        ),
        ("training", {"engine": "quantum"}, "engine", "flow"),
        (
            "training",
            {f"{TRAINING}.data": {"cache": "page-cache", "cache_size": "100 TB", "dataset_size": "1 PB"}},
            f"{TRAINING}.data.cache_size",
            "2 TiB",
        ),
        ("serving", {"workload.serving.pools.both.ep": 3}, "workload.serving.pools.both.ep", None),
        (
            "serving",
            {"workload.serving.pools.both.tp": 3, "workload.serving.pools.both.replicas": 1},
            "workload.serving.pools.both.tp",
            "1, 2, 4, 8",
        ),
        ("serving", {"workload.serving.cache.host": "90 TB"}, "workload.serving.cache.host", "2048.0 GiB"),
        (
            "training",
            {"cluster.back_end.cable_length": {"nic-spine": "3 m"}},
            "cluster.back_end.cable_length.nic-spine",
            "leaf-spine",
        ),
        ("training", {"economics.life": "0 years"}, "economics.life", "100 years"),
        (
            "training",
            {"cluster.overrides": {"server": {"nic_numa": [7]}}},
            "cluster.overrides.server.nic_numa",
            "0 to 1",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_its_key(tmp_path, kind, changes, key, allowed):
    if f"{TRAINING}.data" in changes:
        changes = {**changes, "cluster.storage": {"name": "nvme-file-server", "servers": 1, "network": "back_end"}}
    found = refused(tmp_path, changes, kind)
    assert key in found
    assert allowed is None or allowed in (found[key].allowed or "")


def test_one_error_does_not_hide_another(tmp_path):
    changes = {"cluster.server": "hgx-h1oo", f"{TRAINING}.model": "llama-9", "engine": "quantum"}
    assert set(refused(tmp_path, changes)) == {"cluster.server", f"{TRAINING}.model", "engine"}
    changes = {f"{TRAINING}.model": "llama-9", "collectives.algorithm": {"dp": "rong"}}
    assert set(refused(tmp_path, changes)) == {f"{TRAINING}.model", "collectives"}
    assert set(refused(tmp_path, {}, varies=["tp=0,1", "zero=1,7"])) == {
        f"{TRAINING}.parallelism.tp",
        f"{TRAINING}.parallelism.zero",
    }


def test_too_many_variants_are_refused_at_the_longest_list(tmp_path):
    many = ",".join(map(str, range(600)))
    (problem,) = refused(tmp_path, {}, varies=["tp=1,2", f"seed={many}"]).values()
    assert (problem.key, problem.found, problem.allowed) == (
        "seed",
        "600 values",
        f"at most {load.MOST:,} variants",
    )
    assert problem.file == f"--vary seed={many}"


@pytest.mark.parametrize("key", ["rate", "requests.rate", "router", "workload.serving.requests.rate"])
def test_a_key_of_another_kind_of_workload_says_so(key):
    draft = load.from_values(BASES["training"])
    with pytest.raises(InputError, match="workload is `training`, not `serving`"):
        override.put(draft.tree, *override.parse_set(f"{key}=1"))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("cluster.back_end.fabric.mtu", "32 KiB", "usual is 256 B to 9 KiB (InfiniBand"),
        ("economics.pue", 5, "usual is 1.02 to 2 (Uptime"),
        ("economics.electricity", "$5/kWh", "usual is $0.01/kWh to $0.6/kWh"),
        ("collectives.connections", 1000, "usual is 1 to 128"),
        ("economics.mtbf", "1 h", "usual is 1,000 h"),
    ],
)
def test_what_no_cluster_has_is_a_warning_with_its_source(key, value, words):
    draft = load.from_values(BASES["training"], {"cluster.back_end.fabric": {"name": "roce"}, key: value})
    (problem,) = draft.unusual
    assert problem.key == key
    assert words in problem.message
    assert not load.from_values(BASES["training"]).unusual


def test_settings_of_packets_on_another_engine_are_a_warning():
    changes = {"packet.set": {"marking_low": "100 kB"}}
    draft = load.from_values(BASES["training"], changes)
    assert draft.ignored("packet") == []
    (problem,) = draft.ignored("flow")
    assert problem.headline() == "packet.set: the engine `flow` has no packets, so this changes nothing"
    found = api.run(draft.scenario, engine="analytic", out=None).result.variants[0].warnings
    assert found[0] == problem.headline().replace("flow", "analytic")


def test_a_scenario_mixes_its_fabric_of_packets_in_a_file(tmp_path):
    """The file lies next to the scenario; it goes into the folder of the run."""
    (tmp_path / "mine.yaml").write_text("name: mine\nbase: roce\nmtu_bytes: 2000\n")
    made = load.from_values(BASES["training"], {"packet.fabric": "mine.yaml"})
    draft = load.Draft(made.scenario, made.tree, tmp_path)
    cluster = compose.cluster_of(draft, compose.catalog_of(draft))
    assert engine_of(draft, cluster, "packet").settings.mtu_bytes == 2000
    assert files_of(draft)["mine.yaml"] == tmp_path / "mine.yaml"
    (tmp_path / "mine.yaml").write_text("base: roce\nload_balancing: user:evil.py:Evil\n")
    with pytest.raises(InputError, match="would run Python"):
        engine_of(draft, cluster, "packet")


def test_a_range_of_prices_is_looked_at_end_by_end():
    band = {"low": "$0.05/kWh", "typical": "$0.1/kWh", "high": "$3/kWh"}
    (problem,) = load.from_values(BASES["training"], {"economics.electricity": band}).unusual
    assert problem.key == "economics.electricity.high"


# Keys of errors that are of other files, of options, or of values that only Python gives.
ELSEWHERE = {
    "algo",
    "apiVersion",
    "at_ps",
    "busid",
    "chunk",
    "class",
    "communicators",
    "congestion_control",
    "day",
    "days",
    "deletion_time",
    "deployment",
    "ecn_low_packets",
    "empty",
    "fabric_tiers",
    "gpu",
    "hosts",
    "layout",
    "life_years",
    "limit",
    "link_speed",
    "most_input_tokens",
    "mtu_bytes",
    "node",
    "out",
    "percent",
    "prefix_tokens",
    "probes",
    "seconds",
    "slow_links",
    "threads",
    "tiers",
    "transfers",
    "type",
    "unit",
    "usd_per_gpu_h",
    "variant",
    "version",
}
ROOMS = ("ask/plan", "ask/tune", "cluster", "collective", "engine", "measure", "model", "work")


def _recorded(entry) -> set[str]:
    found = set()
    for record in records(entry).values():
        found |= {record.key} | (_recorded(record.record) if record.record else set())
    return found


def _keys(call: ast.Call) -> list[str]:
    """Segments of a `key` that a call is given; those that are put together at run time are left out."""
    found = []
    for given in call.keywords:
        if given.arg != "key":
            continue
        parts = given.value.values if isinstance(given.value, ast.JoinedStr) else [given.value]
        text = "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "0" for part in parts
        )
        found += [
            part for part in re.split(r"[.\[\], ]+", text) if part and "0" not in part and not part.startswith("--")
        ]
    return found


def test_errors_name_keys_that_exist():
    """`lengths`, `mtbf_h` and `rate_per_s` were names of attributes."""
    names = {str(step) for place in places() for step in place.path} | set(load.Scenario.model_fields)
    names |= set.union(*(_recorded(entry) for entry in KINDS.values()))
    schema = load.Scenario.model_json_schema()["$defs"]
    names |= {key for section in schema.values() for key in section.get("properties", ())}
    wrong = {
        f"{path.relative_to(SRC)}:{node.lineno}: {key}"
        for room in ROOMS
        for path in (SRC / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for key in _keys(node)
        if key not in names | ELSEWHERE
    }
    assert not wrong


def test_a_key_that_nobody_can_write_is_cut_off():
    assert known(("cluster", "back_end", "lengths", "nic"), load.Scenario) == ("cluster", "back_end")
    assert known(("economics", "mtbf_h"), load.Scenario) == ("economics",)
    path = ("cluster", "back_end", "cable_length", "nic")
    assert known(path, load.Scenario) == path
    path = ("faults", "0", "cable")
    assert known(path, load.Scenario) == path


def problems_of(read, text, folder, name="s.yaml"):
    """What a reader refuses a file for, by key."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(file)
    assert all(problem.file == str(file) and problem.line for problem in caught.value.problems)
    return {problem.key: problem for problem in caught.value.problems}


def test_a_missing_cluster_and_one_too_many_are_at_their_key(tmp_path):
    federated = yaml.to_text(BASES["federated"])
    (problem,) = problems_of(load.load, federated + "cluster: {accelerators: 8, server: hgx-h100}\n", tmp_path).values()
    assert (problem.key, problem.line) == ("cluster", len(federated.splitlines()) + 1)
    alone = {"workload": BASES["training"]["workload"]}
    assert set(problems_of(load.load, yaml.to_text(alone), tmp_path)) == {"cluster"}


def test_tags_of_unions_are_no_keys(tmp_path):
    """`model` of federated learning is a name or a size: `size` below it was taken for the choice between the two."""
    root = put(BASES["federated"], ["workload", "federated", "model"], {"size": 100, "parameters": "1 M"})
    found = problems_of(load.load, yaml.to_text(root), tmp_path)
    assert set(found) == {"workload.federated.model.size", "workload.federated.model.flop_per_sample"}
    assert found["workload.federated.model.size"].allowed == "flop_per_sample, parameters"


def test_a_cluster_file_names_its_keys_as_it_has_them(tmp_path):
    inner = "server: hgx-h100, accelerators: 12"
    for text, key in (
        (f"cluster: {{{inner}}}", "cluster.accelerators"),
        (f"{{{inner}}}", "accelerators"),
        (f"cluster: {{{inner}, rails: 2}}", "cluster.rails"),
    ):
        assert set(problems_of(cluster_of, text, tmp_path)) == {key}


def test_what_is_written_out_is_read_again():
    """A pool of the hosts' memory has no name, and a range begins at `from`."""
    changes = {
        "cluster.memory_pool": {"network": "host"},
        "plan.space": {"accelerators": {"from": 16, "to": 64, "factor": 2}},
    }
    root = BASES["training"]
    for key, value in changes.items():
        root = put(root, key.split("."), value)
    scenario = load.from_values(root).scenario
    plain = load.dump(scenario)
    assert plain["plan"]["space"]["accelerators"]["from"] == 16
    assert load.from_values(plain).scenario == scenario


def test_a_range_begins_somewhere(tmp_path):
    """`from:` without a value was read, and refused once it was written out."""
    root = put(BASES["training"], ["plan", "space", "accelerators"], {"from": None, "to": 64})
    assert set(problems_of(load.load, yaml.to_text(root), tmp_path)) == {"plan.space.accelerators.from"}


def test_a_catalogue_with_an_unknown_kind_is_looked_at_in_full(tmp_path):
    text = "acelerators: {mine: {}}\nservers: {hgx-h100: {nic: none-such, accelerator_memory: 1}}\n"
    assert set(problems_of(catalog.load, text, tmp_path)) == {"acelerators", "servers.hgx-h100.accelerator_memory"}
    text = "servers: {hgx-h100: {nic: none-such, accelerator: h1oo}}\n"
    assert set(problems_of(catalog.load, text, tmp_path)) == {"servers.hgx-h100.nic", "servers.hgx-h100.accelerator"}


def test_a_mixed_fabric_with_an_unknown_base_is_looked_at_in_full(tmp_path):
    found = problems_of(mix.load, "base: rose\nqps: 0\nname: [1]\npaths: ''\n", tmp_path)
    assert set(found) == {"base", "qps", "name", "paths"}


TOGETHER = {
    "serving": (
        """
        cluster: {accelerators: 16, server: hgx-h1oo}
        workload:
          serving:
            model: llama-3-8c
            profiles: none.toml
            requests: {trace: none.jsonl}
            pools: {prefill: {tp: 3, ep: 2, replicas: 2}, decode: {tp: 1, ep: 7, server: hgx-b2oo}}
        """,
        """cluster.server workload.serving.model workload.serving.profiles workload.serving.requests.trace
        workload.serving.pools.prefill.ep workload.serving.pools.decode.ep workload.serving.pools.decode.server""",
    ),
    "jobs": (
        """
        cluster: {accelerators: 24, server: hgx-h1oo}
        workload:
          jobs:
            - {name: a, accelerators: 8, training: {model: llama-3-8c, global_batch: 8, sequence: 1024}}
            - name: b
              accelerators: 8
              serving:
                model: llama-3-8x
                requests: {synthetic: {rate: 1, input: 10, output: 10}}
                pools: {both: {tp: 3, ep: 2}}
            - {name: c, accelerators: 8, trace: {file: none.goal}}
        faults: [{kind: slow-accelerator, rank: 99, factor: 0.5}, {kind: accelerator-down, rank: 77}]
        engine: flaw
        """,
        """cluster.server engine faults.0.rank faults.1.rank workload.jobs.0.training.model
        workload.jobs.1.serving.model workload.jobs.1.serving.pools.both.ep workload.jobs.2.trace.file""",
    ),
    "operate": (
        """
        cluster: {accelerators: 64, server: hgx-h1oo}
        workload:
          operate:
            jobs: {trace: none.csv}
            queue: {discipline: fofi, backfill: eazy}
            placement: frist-fit
            failures: {profile: mate, modes: [{name: mine}, {name: other}]}
            turnaround: {storage: none}
            contention:
              classes: [{name: x, model: llama-3-8c, tokens: 8192}, {name: y, model: llama-3-8d, tokens: 8192}]
        """,
        """cluster.server workload.operate.queue.discipline workload.operate.queue.backfill workload.operate.placement
        workload.operate.failures.profile workload.operate.failures.modes.0.per_1000_node_days
        workload.operate.failures.modes.1.per_1000_node_days workload.operate.jobs.trace
        workload.operate.turnaround.storage workload.operate.contention.classes.0.model
        workload.operate.contention.classes.1.model""",
    ),
    "operate's rules": (
        """
        cluster: {accelerators: 64, server: hgx-h100}
        workload:
          operate:
            jobs: {synthetic: {count: 10, load: 0.5, sizes: {"8": 1}}}
            queue: {quotas: {z: 1}, shares: {y: 1}}
            within: rock
            windows: [{nodes: [5, 99], start: 1 h, length: 1 h}, {nodes: [3, 2], start: 1 h, length: 1 h}]
            recovery: {spares: 99}
        """,
        """workload.operate.queue.quotas workload.operate.queue.shares workload.operate.within
        workload.operate.windows.0.nodes workload.operate.windows.1.nodes workload.operate.recovery.spares""",
    ),
}


@pytest.mark.parametrize("kind", TOGETHER)
def test_errors_of_independent_parts_come_together(kind, tmp_path):
    """What needs the cluster is refused once there is one; all else at once, each at its key."""
    text, keys = textwrap.dedent(TOGETHER[kind][0]), set(TOGETHER[kind][1].split())

    def read(file):
        draft = load.load(file)
        if draft.kind == "operate":
            prepare_operation(load.expand(draft)[0])
        prepare(draft)

    of_cluster = "workload.operate.jobs.trace", "workload.operate.turnaround", "workload.operate.contention"
    without = {key for key in keys if not key.startswith(of_cluster)}
    assert set(problems_of(read, text, tmp_path)) == without
    assert set(problems_of(read, text.replace("h1oo", "h100"), tmp_path)) == keys - {"cluster.server"}
