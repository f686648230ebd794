"""What a scenario fixes about collectives, in the files of servers, as the libraries read them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from railyard.ask.deploy.emit import collectives, configurations
from railyard.ask.deploy.emit.collectives import NOTHING, collectives_of, differences, variables
from railyard.collective.tuner import Fixed
from railyard.face.cli import guard
from railyard.kit.errors import InputError
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
        ("nccl-tuner.csv", ",24,-1", ",24,2", "reads otherwise"),
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
    assert Fixed(connections=16, nics=8).channels == 64


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
