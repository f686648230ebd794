"""What a scenario fixes about collectives, in the files of servers, as the libraries read them."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace

import pytest

from railyard.ask.deploy.emit import collectives, configurations
from railyard.ask.deploy.emit.collectives import NOTHING, collectives_of, differences, variables
from railyard.ask.deploy.emit.configurations import LEFT, SYSTEMS, rendered
from railyard.ask.deploy.system import WORDS, systems
from railyard.collective.tuner import FixedChoices
from railyard.face.cli import guard
from railyard.face.verbs.tune import write_configured
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.study import compose

from .scenarios import draft, planned


def asked(accelerators=16, fabric="roce", **section):
    one = draft(accelerators, "leaf-spine", fabric)
    return load.from_values(json.loads(one.scenario.model_dump_json(exclude_unset=True)) | {"collectives": section})


def intent_of(one):
    return collectives_of(one, compose.cluster_of(one, compose.catalog_of(one)), lambda *_: None)


@pytest.fixture(scope="module")
def scheduled():
    """An all-gather that is searched for 16 ranks, and settings of NCCL."""
    return intent_of(
        asked(
            algorithm={"all-gather": "synthesized:1 MB", "all-reduce": "nvls-tree", "dp reduce-scatter": "ring"},
            protocol={"all-reduce": "simple", "reduce-scatter": "ll128"},
            connections=3,
            pxn=False,
        )
    )


@pytest.fixture(scope="module")
def told(scheduled):
    return collectives.files(scheduled, "NCCL_CROSS_NIC=0\n")


@pytest.fixture(scope="module")
def both(scheduled, told):
    return scheduled, told


def test_nccl_is_told_what_is_fixed_and_finds_its_table(scheduled, told):
    files = told
    assert variables(files["nccl.conf"]) == {
        "NCCL_CROSS_NIC": "0",
        "NCCL_MIN_NCHANNELS": "24",
        "NCCL_MAX_NCHANNELS": "24",
        "NCCL_PXN_DISABLE": "1",
        "NCCL_ALGO": "allreduce:nvlstree",
        "NCCL_PROTO": "allreduce:simple;reducescatter:ll128",
        "NCCL_TUNER_PLUGIN": "libnccl-tuner-example.so",
        "NCCL_TUNER_CONFIG_FILE": "/etc/nccl/nccl-tuner.csv",
    }
    assert files["nccl-tuner.csv"].splitlines()[1:] == [f"allreduce,0,{1 << 62},nvls_tree,simple,24,-1,-1,-1,-1"]
    assert scheduled.left_out == ("collectives.algorithm dp reduce-scatter: ring: not NCCL's to set",)


def test_schedules_are_named_for_msccl_and_mscclpp(told):
    files = told
    assert variables(files["msccl.env"]) == {
        "MSCCL_XML_FILES": "/etc/nccl/msccl/all-gather.xml",
        "NCCL_ALGO": "MSCCL,RING,TREE",
    }
    assert variables(files["mscclpp.env"]) == {"MSCCLPP_EXECUTION_PLAN_DIR": "/etc/nccl/mscclpp"}
    assert 'ngpus="16"' in files["msccl/all-gather.xml"]
    assert len(json.loads(files["mscclpp/all-gather.json"])["gpus"]) == 16


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("nccl.conf", "NCCL_MAX_NCHANNELS=24", "NCCL_MAX_NCHANNELS=26", "NCCL_MAX_NCHANNELS"),
        ("nccl.conf", "NCCL_MIN_NCHANNELS", "#NCCL_MIN_NCHANNELS", "NCCL_MIN_NCHANNELS"),
        ("nccl.conf", "NCCL_PXN_DISABLE=1", "NCCL_PXN_DISABLE=0", "NCCL_PXN_DISABLE"),
        ("nccl.conf", "allreduce:nvlstree", "allreduce:nvls", "NCCL_ALGO"),
        ("nccl.conf", ";reducescatter:ll128", "", "NCCL_PROTO"),
        ("nccl.conf", "nccl-tuner.csv", "tuner.csv", "not there"),
        ("nccl.conf", "NCCL_TUNER_CONFIG_FILE", "NCCL_TUNER_FILE", "the tuner's table"),
        ("nccl-tuner.csv", "nvls_tree", "tree", "the tuner's table"),
        ("nccl-tuner.csv", "allreduce,0", "#allreduce,0", "the tuner's table"),
        ("nccl-tuner.csv", ",24,-1", ",24,2", "reads differently"),
        ("nccl-tuner.csv", "simple,24", "simple,26", "the tuner's table"),
        ("msccl.env", "all-gather.xml", "all-reduce.xml", "not there"),
        ("msccl.env", "MSCCL,RING", "RING", "NCCL_ALGO of MSCCL"),
        ("msccl/all-gather.xml", 'coll="allgather"', 'coll="alltoall"', "msccl/all-gather.xml"),
        ("msccl/all-gather.xml", 'type="r"', 'type="nop"', "msccl/all-gather.xml"),
        ("mscclpp.env", "/mscclpp", "/plans", "plans of MSCCL++"),
        ("mscclpp/all-gather.json", '"signal"', '"nop"', "the plan of all-gather"),
    ],
)
def test_what_a_library_would_read_otherwise_is_noticed(both, file, old, new, words):
    scheduled, told = both
    assert old in told[file]
    if "msccl" not in file:  # schedules are played anew each time
        scheduled, told = replace(scheduled, schedules=()), {name: told[name] for name in told if "msccl" not in name}
    wrong = differences(scheduled, told | {file: told[file].replace(old, new)})
    assert any(words in one for one in wrong), wrong


def test_a_schedule_for_other_ranks_is_noticed(scheduled, told):
    other = replace(scheduled, schedules=(replace(scheduled.schedules[0], ranks=18),))
    assert len([one for one in differences(other, told) if "ranks" in one]) == 2


def test_nothing_fixed_leaves_the_libraries_alone():
    assert collectives.files(NOTHING, "A=1\n") == {"nccl.conf": "A=1\n"}
    assert FixedChoices(connections=16, nics=8).channels == 64


def test_what_no_library_can_be_given_is_named():
    found = intent_of(asked(128, algorithm={"all-gather": "synthesized"}, selector="best"))
    assert found.schedules == ()
    assert found.left_out == (
        "collectives.algorithm all-gather: synthesized: schedules are searched for up to 64 ranks",
        "collectives.selector: best: not NCCL's to set",
    )
    with pytest.raises(InputError, match="does not do all-gather"):
        intent_of(asked(algorithm={"all-gather": "nvls-tree"}))


def test_the_folder_has_an_algorithm_of_a_file(tmp_path, scheduled, capsys):
    text = scheduled.schedules[0].msccl
    (tmp_path / "mine.xml").write_text(text)
    one = json.loads(asked(16).scenario.model_dump_json(exclude_unset=True))
    one["collectives"] = {"algorithm": {"all-gather": "msccl:mine.xml"}}
    (tmp_path / "s.yaml").write_text(json.dumps(one))
    out = tmp_path / "plan"
    assert guard.run(["deploy", str(tmp_path / "s.yaml"), "--out", str(out), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["remarks"] is not None
    assert (out / "servers/msccl/all-gather.xml").read_text() == text
    assert not (out / "servers/mscclpp").exists()
    assert "MSCCL_XML_FILES=/etc/nccl/msccl/all-gather.xml\n" in (out / "servers/msccl.env").read_text()


def test_files_of_servers_are_among_those_of_the_plan(scheduled):
    names = dict(configurations.files(planned(draft(16, "leaf-spine", "roce")), "sonic", scheduled))
    assert {"servers/nccl.conf", "servers/nccl-tuner.csv", "servers/mscclpp/all-gather.json"} <= names.keys()
    assert names["servers/nccl.conf"].startswith("NCCL_IB_HCA==mlx5_0")


# Files of a tuned fabric: marks, shares of the buffer, DCQCN and NCCL as set, in each dialect, read back.

SET = {
    "packet.set.marking_low": "70 kB",
    "packet.set.marking_high": "650 kB",
    "packet.set.marking_most": "0.37",
    "packet.set.pfc_alpha": "0.125",
    "packet.set.dcqcn_additive": "4 Gb/s",
    "packet.set.dcqcn_increase_interval": "11 us",
    "packet.set.rdma_cnp_interval": "53 us",
    "qps": 6,
    "collectives.connections": 3,
    "collectives.algorithm": {"all-reduce": "nvls-tree"},
    "collectives.protocol": {"all-reduce": "simple"},
}


def quiet(_words, _share):
    """Told nothing."""


@pytest.fixture(scope="module")
def tuned():
    return draft(64, "leaf-spine", "roce").with_values(SET, "test")


@pytest.fixture(scope="module")
def files(tuned):
    return rendered(tuned, quiet)


def test_every_dialect_says_what_was_tuned(files):
    by_name = {one.what: one for one in files.readings}
    assert all(one.equal for one in files.readings)
    marks = by_name["marks: first and last bytes, percent"].found
    assert marks == {"sonic": (70_000, 650_000, 37), "eos": (70_000, 650_000, 37), "junos": LEFT}
    assert by_name["share of the free buffer that pauses"].found == dict.fromkeys(SYSTEMS, 0.125)
    assert by_name["interfaces: rp_ai_rate"].found == {"servers": 4000}
    assert by_name["interfaces: rp_time_reset"].found == {"servers": 11}
    assert by_name["interfaces: np_min_time_between_cnps"].found == {"servers": 53}
    assert by_name["NCCL_IB_QPS_PER_CONNECTION"].found == {"servers": "6"}
    assert by_name["NCCL_MIN_NCHANNELS"].found == {"servers": "24"}
    assert by_name["NCCL_ALGO"].found == {"servers": "allreduce:nvlstree"}
    assert by_name["tuner: allreduce"].found == {"servers": ("nvlstree", "simple", 24)}


def test_the_words_of_each_system(files):
    sonic = json.loads(next(text for name, text in files.files.items() if name.startswith("sonic/")))
    assert {one["dynamic_th"] for one in sonic["BUFFER_PROFILE"].values()} == {"-3"}
    assert sonic["WRED_PROFILE"]["AZURE_LOSSLESS"]["green_min_threshold"] == "70000"
    eos = next(text for name, text in files.files.items() if name.startswith("eos/"))
    assert "    ingress threshold 1/8\n" in eos
    junos = next(text for name, text in files.files.items() if name.startswith("junos/"))
    assert "shared-buffer ingress buffer-partition lossless dynamic-threshold 4\n" in junos
    assert "# drop-profile of queue 3: 37 % from 70000 to 650000 bytes." in junos


@pytest.mark.parametrize(
    ("system", "change", "fact"),
    [
        ("sonic", ('"green_max_threshold": "650000"', '"green_max_threshold": "715000"'), "red"),
        ("sonic", ('"dynamic_th": "-3"', '"dynamic_th": "0"'), "alpha"),
        ("eos", ("minimum-threshold 70000", "minimum-threshold 77000"), "red"),
        ("eos", ("ingress threshold 1/8", "ingress threshold 1/4"), "alpha"),
        ("junos", ("dynamic-threshold 4", "dynamic-threshold 5"), "alpha"),
    ],
)
def test_another_value_is_noticed(tuned, files, system, change, fact):
    from railyard.ask.deploy.cabling import as_set, plan_of
    from railyard.ask.deploy.emit.intent import switches
    from railyard.cluster.network_table import dialect
    from railyard.work.study import compose

    plan = plan_of(as_set(compose.cluster_of(tuned, compose.catalog_of(tuned)), tuned))
    intent = next(switches(plan, 0, dialect(system)))
    text = next(text for name, text in files.files.items() if name.startswith(f"{system}/{intent.name}."))
    assert systems.get(system).differences(intent, text) == []
    (words,) = systems.get(system).differences(intent, text.replace(*change))
    assert words.startswith(f"{WORDS[fact]}: ")


def test_what_is_not_set_is_as_the_fabric_has_it():
    found = rendered(draft(64, "leaf-spine", "roce"), quiet, ("sonic",))
    assert "servers/dcqcn.sh" not in found.files
    facts = systems.get("sonic").facts(next(text for name, text in found.files.items() if name.startswith("sonic/")))
    assert (facts["red"], facts["alpha"]) == ({(150_000, 1_500_000, 20)}, {1.0})


def test_the_script_of_interfaces_writes_the_drivers_files(files, tmp_path):
    text = files.files["servers/dcqcn.sh"]
    for number in range(8):
        bus = tmp_path / "devices" / f"0000:{number}b:00.0"
        ports = tmp_path / "kernel" / "debug" / "mlx5" / bus.name / "cc_params"
        for folder in (bus, ports, tmp_path / "class" / "infiniband" / f"mlx5_{number}"):
            folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / "class" / "infiniband" / f"mlx5_{number}" / "device").symlink_to(bus)
    subprocess.run(["sh", "-c", text.replace("/sys/", f"{tmp_path}/")], check=True, timeout=30)
    written = {path.name: path.read_text() for path in (tmp_path / "kernel").rglob("cc_params/*")}
    assert written == {"rp_ai_rate": "4000\n", "rp_time_reset": "11\n", "np_min_time_between_cnps": "53\n"}
    assert len(list((tmp_path / "kernel").rglob("rp_ai_rate"))) == 8
    assert configurations.read(re.sub("(?m)^", "# ", text)) == {}


def test_a_folder_of_something_else_stays(tuned, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "mine").write_text("x")
    with pytest.raises(InputError, match="holds something else"):
        write_configured(tuned, folder, quiet)
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_the_command_writes_them_and_says_what_they_say(tmp_path, capsys):
    file, folder = tmp_path / "t.yaml", tmp_path / "configs"
    cluster = {"accelerators": 16, "server": "hgx-h100", "back_end": {"topology": "leaf-spine", "fabric": "roce"}}
    training = {"model": "llama-3-8b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "zero": 3}}
    section = {"space": {"qps": [4]}, "seeds": 1, "unseen_seeds": 2, "unseen_loads": [0.0], "unseen_jobs": 1}
    text = yaml.to_text({"name": "t", "cluster": cluster, "workload": {"training": training}, "tune": section})
    file.write_text(text, encoding="utf-8")
    assert guard.run(["tune", str(file), "--quiet", "--even-unsure", "--configs", str(folder)]) == 0
    assert "marks: first and last bytes, percent" in capsys.readouterr().out
    plain = json.loads((folder / "settings.json").read_text())
    assert all(one["equal"] for one in plain["settings"])
    shown = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert shown == {"sonic", "eos", "junos", "servers", "settings.json"}
