"""Values set over a scenario by dotted key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from railyard.cluster import fabrics, topologies
from railyard.face import api
from railyard.face.cli import guard
from railyard.kit import files
from railyard.kit.errors import InputError, RailyardError
from railyard.kit.schema import yaml
from railyard.measure.result.variants import StepVariant
from railyard.work.scenario import load, override
from railyard.work.scenario.problems import MOST
from railyard.work.study.study import prepare
from railyard.work.study.study import run as execute


def tree(text: str = "cluster:\n  accelerators: 8\n  back_end:\n    fabric: roce\nfaults: [{rank: 1}]\n"):
    return yaml.parse_mapping(text, "x.yaml")


def setting(*texts: str):
    root = tree()
    for text in texts:
        root = override.put(root, *override.parse_set(text))
    return root.plain()


def test_a_key_is_replaced_and_the_tree_before_is_left_alone():
    before = tree()
    after = override.put(before, *override.parse_set("cluster.accelerators=16"))
    assert after.plain()["cluster"]["accelerators"] == 16
    assert before.plain()["cluster"]["accelerators"] == 8


def test_a_word_for_a_section_keeps_what_the_new_one_has():
    """Families of topologies share the ratio; a fabric's constants are its own."""
    ratio = ("topology={kind: leaf-spine, oversubscription: 2:1, ports_per_leaf: 32}", "topology=rail-optimized")
    assert setting(*ratio)["cluster"]["back_end"]["topology"] == {"kind": "rail-optimized", "oversubscription": "2:1"}
    same = (*ratio[:1], "topology=leaf-spine", "oversubscription=4:1")
    assert setting(*same)["cluster"]["back_end"]["topology"] == {
        "kind": "leaf-spine",
        "oversubscription": "4:1",
        "ports_per_leaf": 32,
    }
    assert setting(*ratio[:1], "topology=torus")["cluster"]["back_end"]["topology"] == "torus"
    fabric = ("fabric={name: roce, qps: 16}", "fabric=roce")
    assert setting(*fabric)["cluster"]["back_end"]["fabric"] == {"name": "roce", "qps": 16}
    assert setting(*fabric[:1], "fabric=uec")["cluster"]["back_end"]["fabric"] == "uec"


def test_missing_sections_are_made_and_short_names_written_out():
    assert setting("economics.pue=1.2")["economics"] == {"pue": 1.2}
    assert setting("tp=8")["workload"]["training"]["parallelism"] == {"auto": True, "tp": 8}
    assert setting("fabric=uec")["cluster"]["back_end"]["fabric"] == "uec"


def test_a_size_below_auto_fixes_it_and_leaves_the_rest_to_auto():
    def layout(*texts):
        return setting(*texts)["workload"]["training"]["parallelism"]

    assert layout("parallelism=auto", "tp=4", "pp=2") == {"auto": True, "tp": 4, "pp": 2}
    assert layout("parallelism={pp: 2}", "tp=4") == {"pp": 2, "tp": 4}
    assert layout("tp=4", "parallelism.auto=false") == {"auto": False, "tp": 4}


def test_a_word_becomes_a_section_when_a_key_below_it_is_set():
    assert setting("qps=4")["cluster"]["back_end"]["fabric"] == {"name": "roce", "qps": 4}
    failures = "workload.operate.failures"
    found = setting(f"{failures}=llama3", f"{failures}.links=parts", f"{failures}.links.drain=true")
    assert found["workload"]["operate"]["failures"] == {"profile": "llama3", "links": {"drain": True}}
    with pytest.raises(InputError, match="has no keys below it"):
        setting(f"{failures}.links=parst", f"{failures}.links.drain=true")


def test_items_of_lists_are_reached_by_number():
    assert setting("faults.0.rank=7")["faults"] == [{"rank": 7}]
    with pytest.raises(InputError, match="no item `1`"):
        setting("faults.1.rank=7")


@pytest.mark.parametrize("text", ["novalue", "=3", "cluster.accelerators.x=3", "a=[1", "a=*b"])
def test_wrong_overrides_say_so_with_the_option_as_place(text):
    with pytest.raises(InputError) as caught:
        setting(text)
    assert caught.value.problems[0].file.startswith("--set")


def test_values_of_a_comparison():
    key, nodes = override.parse_vary("fabric=roce, {name: roce, qps: 1},3:1")
    assert key == "fabric"
    assert [node.plain() for node in nodes] == ["roce", {"name": "roce", "qps": 1}, "3:1"]
    assert [node.plain() for node in override.parse_vary("tp=[4,8]")[1]] == [4, 8]


def test_the_same_value_twice_is_no_comparison():
    from railyard.work.scenario import load
    from railyard.work.scenario.load import expand

    draft = load.load(Path(__file__).parents[3] / "examples" / "first.yaml", ["tokens=2 T", "placement=scattered"])
    assert draft.scenario.workload.training.tokens == 2_000_000_000_000
    assert draft.scenario.cluster.placement == "scattered"
    with pytest.raises(InputError, match="appears twice"):
        expand(draft, ["fabric=roce,roce"])


@pytest.mark.parametrize("kind", ["serving", "pipeline"])
def test_requests_have_short_names_and_names_of_training_are_refused(kind):
    """Which would begin a training job beside the requests."""
    root = tree(f"workload:\n  {kind}: {{}}\n")
    for text in ("requests.first=9", "capacity.first=7"):
        root = override.put(root, *override.parse_set(text))
    assert root.plain()["workload"] == {kind: {"requests": {"first": 9}, "capacity": {"first": 7}}}
    if kind == "serving":
        of_it = override.put(root, *override.parse_set("gateway.rate=1 Gb/s"))
        assert of_it.plain()["workload"]["serving"]["gateway"] == {"rate": "1 Gb/s"}
    with pytest.raises(InputError, match=r"pools\.both\.tp"):
        override.put(root, *override.parse_set("tp=2"))


# Input that once ended in a fault, a hang or silence: one clear message, exit code 2.

PLAIN = """
name: plain
cluster: {accelerators: 16, server: hgx-h100}
workload: {training: {model: llama-3.2-1b, global_batch: 16, sequence: 512, tokens: 1 B, parallelism: {dp: 16}}}
"""


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN, encoding="utf-8")
    return path


def refused(capsys, *arguments):
    assert guard.run([str(one) for one in arguments]) == 2
    return capsys.readouterr().err


def test_a_short_name_that_is_misspelled_gets_its_right_spelling(plain, capsys):
    assert "did you mean `fabric`?" in refused(capsys, "compare", plain, "--vary", "fabrik=roce,uec")
    assert "did you mean `micro_batch`?" in refused(capsys, "run", plain, "--set", "microbatch=2")


def test_in_a_file_a_short_name_is_answered_with_its_whole_path(plain):
    plain.write_text(PLAIN + "fabrik: roce\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load.load(plain)
    assert "did you mean `cluster.back_end.fabric`?" in str(caught.value)


def test_a_rate_beyond_the_nic_names_servers_that_have_it(plain, capsys):
    said = refused(capsys, "run", plain, "--set", "link_rate=800 Gb/s")
    assert "servers whose NICs do: " in said
    assert "hgx-b300 (cx8-800g)" in said
    assert "servers whose NICs do" not in refused(capsys, "run", plain, "--set", "link_rate=9 Tb/s")


def test_more_uplinks_than_nics_fill_are_said(plain):
    topology = {"kind": "leaf-spine", "oversubscription": "1:3", "ports_per_leaf": 8}
    (odd,) = api.run(plain, out=None, overrides={"topology": topology}).result.of(StepVariant)
    assert any("oversubscription 1:3 of the back-end network buys 3 times" in line for line in odd.warnings)
    even = {**topology, "oversubscription": "1:1"}
    (usual,) = api.run(plain, out=None, overrides={"topology": even}).result.of(StepVariant)
    assert not any("oversubscription" in line for line in usual.warnings)


def test_explain_of_a_scenario_says_to_run_it(plain, capsys):
    assert f"run it first: `railyard run {plain}`" in refused(capsys, "explain", plain)


def test_ten_thousand_unknown_keys_are_counted(plain, capsys):
    plain.write_text(PLAIN + "".join(f"key{number}: 1\n" for number in range(10_000)), encoding="utf-8")
    said = refused(capsys, "run", plain)
    assert said.count("unknown key") == MOST
    assert f"{10_000 - MOST:,} more faults are not shown" in said


def test_keys_of_thousands_of_parts(plain, capsys):
    assert "a key has at most 40 dots" in refused(capsys, "run", plain, "--set", f"a.{'b.' * 2000}c=1")


def test_a_folder_with_a_name_that_no_disk_takes(plain, tmp_path, capsys):
    assert "File name too long" in refused(capsys, "run", plain, "--out", tmp_path / ("o" * 300))


@pytest.mark.parametrize("arguments", [("run",), ("explain",), ("packet", "--traffic"), ("compare",)])
def test_a_device_that_never_ends(arguments, capsys, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 20)
    refused(capsys, *arguments, "/dev/zero")


def test_a_pipe_without_a_writer(tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "not a regular file" in refused(capsys, "run", pipe)
    assert "not a regular file" in refused(capsys, "packet", "--traffic", pipe)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"x" * 100)
    assert files.read_bytes(path, 100) == b"x" * 100
    with pytest.raises(InputError, match="larger"):
        files.read_bytes(path, 99)


def test_a_seed_beyond_64_bits(capsys):
    traffic = Path(__file__).parents[2] / "engine" / "packet" / "data" / "perm_16n_16c_2MB.cm"
    assert "less than or equal to 18446744073709551615" in refused(
        capsys, "packet", "--traffic", traffic, "--seed", 1 << 64
    )


# Whatever a user asks for, a run ends with a result or with one of Railyard's own errors, never with a
# traceback.

PARALLELISM = "workload.training.parallelism"
TRAINING = "workload.training"
CHOICES = {
    "accelerators": [1, 2, 7, 8, 9, 16, 24, 48, 64, 72, 100, 1000],
    "server": [
        "hgx-h100",
        "dgx-a100",
        "gb200-nvl72",
        "mi300x-8",
        "tpu-v5p-host",
        "a100-pcie-8",
        "rtx-4090-8",
        "gh200-node",
    ],
    "topology": [
        *topologies.names(),
        *({"kind": "leaf-spine", "spines": count} for count in (0, 1, 3, 1000)),
        *({"kind": "leaf-spine", "ports_per_leaf": count} for count in (0, 1, 64, 10**9)),
    ],
    "fabric": [
        *fabrics.names(),
        {"name": "roce", "qps": 0},
        {"name": "roce", "qps": 10**6},
        {"name": "uec", "mtu": "0 B"},
        {"name": "roce", "hop_latency": "1 h"},
        {"name": "roce", "congestion_efficiency": 0},
        {"name": "roce", "load_balancing": "flowlet"},
    ],
    "oversubscription": ["1:1", "3:1", 0, "1:3", 1000, 1e-6],
    "link_rate": ["400 Gb/s", "1 b/s", "0 b/s", "100 Tb/s", "25 Gb/s"],
    "model": ["llama-3.2-1b", "llama-3-8b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b", "llama-3-405b"],
    "global_batch": [1, 2, 3, 16, 17, 64, 10**6],
    "sequence": [1, 127, 2048, 1_000_000],
    "precision": ["bf16", "fp16", "fp8", "fp4"],
    "parallelism": ["auto", {"auto": True, "tp": 2}, {"auto": True, "ep": 4}],
    **{letter: [1, 2, 3, 4, 8, 64] for letter in ("tp", "pp", "dp", "cp", "ep", "vp")},
    "zero": [0, 1, 2, 3, 4],
    "micro_batch": [1, 2, 3, 1000],
    f"{PARALLELISM}.recompute": ["none", "selective", "full"],
    f"{PARALLELISM}.schedule": ["1f1b", "interleaved", "zero-bubble"],
    f"{PARALLELISM}.bucket": ["0 B", "1 B", "25 MB", "1 TB"],
    f"{PARALLELISM}.fsdp_shard": [0, 1, 2, 3, 8],
    f"{TRAINING}.software": ["megatron-2021", "torchtitan-2024", "maxtext"],
    f"{TRAINING}.data": [{}, {"bytes_per_token": 0}, {"prefetch": 0}],
    f"{TRAINING}.checkpoint": [{}, {"interval_steps": 0}, {"interval_steps": 1, "asynchronous": False}],
    "cluster.storage": [
        {"name": "local-nvme", "servers": 2},
        {"name": "nvme-file-server", "servers": 1, "network": "back_end"},
        {"name": "nvme-file-server", "servers": 3, "network": {"topology": "leaf-spine"}},
    ],
    "cluster.placement": ["packed", "scattered"],
    "cluster.background": [[{"load": 0.99}], [{"network": "storage", "load": 0.1}], [{"tier": "spin", "load": 0.1}]],
    "cluster.overrides": [
        {"accelerator": {"memory_bandwidth": "0 b/s"}},
        {"accelerator": {"memory": "1 GB"}},
        {"server": {"accelerators": 4}},
        {"server": {"nics": 3}},
        {"switch": {"ports": 1}},
    ],
    "faults": [
        [{"kind": "late", "rank": 0, "by": "1 s"}],
        [{"kind": "degrade-link", "tier": "nic", "factor": 0.01}],
        [{"kind": "degrade-link", "link": 10**7, "factor": 0.5}],
        [{"kind": "slow-accelerator", "rank": 1, "factor": 0.001}],
    ],
    "jitter": [{"sigma": 0.5}, {"rank_sigma": 1}],
    "engine": ["flow", "analytic"],
    "economics": [{"pue": 1}, {"life": "0 years"}, {"mtbf": "1 s"}, {"restart": "1000 d"}],
    "collectives": [{"selector": "best"}, {"algorithm": {"tp": "nvls"}}, {"protocol": {"dp": "ll"}}, {"pxn": False}],
}
changes = st.dictionaries(st.sampled_from(sorted(CHOICES)), st.integers(0, 10**6), min_size=1, max_size=4).map(
    lambda drawn: {key: CHOICES[key][number % len(CHOICES[key])] for key, number in drawn.items()}
)


def attempt(small, asked, run):
    values = yaml.read(small).plain()
    try:
        run(load.from_values(values, asked))
    except RailyardError as error:
        return str(error)
    return "done"


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=changes)
def test_anything_is_prepared_or_refused(small, asked):
    assert attempt(small, asked, prepare)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=changes)
@example(asked={f"{PARALLELISM}.fsdp_shard": 3})
@example(asked={"parallelism": "auto", f"{PARALLELISM}.fsdp_shard": 3})
@example(asked={"cluster.overrides": {"accelerator": {"memory_bandwidth": "0 b/s"}}})
def test_anything_is_run_or_refused(small, asked):
    assert attempt(small, asked, execute)


@pytest.mark.parametrize("text", ["roce,uec", "[roce, uec]", "roce"])
def test_values_of_a_plans_key_are_written_as_those_of_vary(text):
    assert override.parse_set(f"plan.space.fabric={text}")[1].plain() == ["roce", "uec"][: 1 + ("uec" in text)]
    assert override.parse_set(f"name={text}")[1].plain() != ["roce"]
    assert override.parse_set("plan.space.accelerators={from: 64, to: 128, factor: 2}")[1].plain()["to"] == 128
