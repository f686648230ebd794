"""Recorded command lines of RoCE, in Railyard's words."""

import csv
import json
from pathlib import Path

import pytest

from railyard.face.cli.guard import run as railyard
from railyard.kit.errors import InputError
from railyard.work.scenario.packet import assign, fabric
from railyard_validation.packet.htsim import validate_htsim
from railyard_validation.packet.htsim_flags import command

DATA = Path(__file__).parents[3] / "tests" / "engine" / "packet" / "data"


def sets(text):
    return set(command(text).sets)


def test_flags_of_uec_are_said_in_our_words():
    asked = command(
        "./htsim_uec -tm connection_matrices/p.cm -end 2000 -sender_cc -receiver_cc -paths 128 -q 500 -cwnd 50 "
        "-sack_threshold 4000 -load_balancing_algo bitmap -failed 8 -topo topologies/t.topo"
    )
    assert (asked.matrix, asked.topology, asked.slowed, asked.hashed, asked.not_built) == (
        "p.cm",
        "t.topo",
        True,
        False,
        "",
    )
    assert set(asked.sets) == {
        "link_rate=100000 Mb/s", "congestion_control=nscc+rccc", "paths=128", "queue_packets=500", "window_packets=50",
        "sack_bytes=4000", "load_balancing=bitmap", "slow_links=8", "recv_done_trigger=ignore",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "control"),
    [
        ("", "nscc"),
        ("-sender_cc_only", "nscc"),
        ("-receiver_cc_only", "rccc"),
        ("-sender_cc -receiver_cc", "nscc+rccc"),
    ],
)
def test_who_controls_congestion(flags, control):
    assert f"congestion_control={control}" in sets(f"uet_htsim_uec -tm a.cm {flags}")


def test_one_path_hangs_on_the_hash_and_adaptive_routing_is_a_load_balancer():
    asked = command("uet_htsim_uec -tm a.cm -linkspeed 400000 -paths 1")
    assert asked.hashed
    assert {"load_balancing=ecmp", "link_rate=400000 Mb/s"} <= set(asked.sets)
    assert "load_balancing=adaptive" in sets("uet_htsim_uec -tm a.cm -strat ecmp_ar")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("csg_htsim_ndp -tm a.cm -strat perm", "strategy perm"),
        ("csg_htsim_eqds -tm a.cm -queue_type aeolus", "flag -queue_type"),
        ("csg_htsim_swift -tm a.cm", "Swift stalls"),
        ("csg_htsim_tcp -nodes 128 -conns 128 UNCOUPLED -sub 1", "TCP"),
        ("uet_htsim_uec -tm a.cm -pcie 1.1", "flag -pcie"),
        ("uet_htsim_uec -tm a.cm -strat ecmp_rr", "strategy ecmp_rr"),
    ],
)
def test_what_is_not_built_is_said(text, reason):
    assert reason in command(text).not_built


def test_receivers_that_pull_are_said_in_our_words():
    flags = "-nodes 8 -linkspeed 400000 -end 9 -mtu 4150 -q 145 -cwnd 145 -strat ecmp_host -paths 64 -tm a.cm"
    asked = {name: command(f"csg_htsim_{name} {flags}") for name in ("eqds", "ndp")}
    common = {"link_rate=400000 Mb/s", "window_packets=145", "paths=64", "recv_done_trigger=ignore"}
    assert set(asked["eqds"].sets) == common | {"mtu_bytes=4150", "queue_packets=145"}
    # NDP's packets are 64 bytes longer, its queue is not.
    assert set(asked["ndp"].sets) == common | {"mtu_bytes=4214", "queue_packets=142"}
    assert [(one.preset, one.not_built) for one in asked.values()] == [("eqds-htsim", ""), ("ndp-htsim", "")]


@pytest.mark.parametrize("text", ["uet_htsim_uec -q 5", "uet_htsim_uec -tm"])
def test_commands_without_traffic_or_value_are_refused(text):
    with pytest.raises(InputError):
        command(text)


def folder(tmp_path, *rows):
    (tmp_path / "matrices").symlink_to(DATA)
    (tmp_path / "topologies").symlink_to(DATA)
    with (tmp_path / "uec_validate.csv").open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerow(["suite", "experiment", "tail_fct_us", "first_fct_us", "connections", "cmd"])
        table.writerows(rows)
    return tmp_path


ONE = "./htsim_uec -tm x/one.cm -end 1000"


def test_agreement_and_its_absence_are_told_apart(tmp_path):
    # htsim's recorded answer for one.cm at 100 Gb/s is 176.2 us; a false answer must be seen.
    rows = [("validate_a.out", "right", 176.2, 176.2, 1, ONE), ("validate_a.out", "wrong", 150.0, 176.2, 1, ONE)]
    rows.append(("validate_a.out", "elsewhere", 1.0, 1.0, 1, "./htsim_uec -tm x/gone.cm"))
    report = validate_htsim(folder(tmp_path, *rows), only="a: ")
    found = {(row.name, row.figure): row.status for row in report.rows}
    assert found == {
        ("a: right", "finished"): "ok", ("a: right", "last finish"): "ok", ("a: right", "first finish"): "ok",
        ("a: wrong", "finished"): "ok", ("a: wrong", "last finish"): "off", ("a: wrong", "first finish"): "ok",
        ("a: elsewhere", ""): "skipped",
    }  # fmt: skip
    wrong = next(row for row in report.rows if row.status == "off")
    assert wrong.error == pytest.approx(176.2 / 150 - 1, abs=1e-3)


def test_rows_of_one_path_are_run_with_many_seeds(tmp_path):
    text = "./htsim_uec -tm x/perm_16n_16c_2MB.cm -sender_cc_only -end 2000 -paths 1"
    report = validate_htsim(folder(tmp_path, ("s", "one path", 527.755, 178.443, 16, text)), seeds=4)
    last = next(row for row in report.rows if row.figure == "last finish")
    assert last.seeds == 4
    assert last.low < last.found < last.high
    assert last.tolerance is None


def test_the_command_prints_a_table_and_an_object(tmp_path, capsys):
    place = str(folder(tmp_path, ("s", "one", 176.2, 176.2, 1, ONE)))
    assert railyard(["validate", "htsim", "--folder", place, "--only", "s: "]) == 0
    assert capsys.readouterr().out.startswith("3 of 3 figures agree with htsim.\n")
    assert railyard(["validate", "htsim", "--folder", place, "--only", "s: ", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"ok": 3, "off": 0, "skipped": 0}


def test_folders_without_answers_are_refused(tmp_path):
    with pytest.raises(InputError, match="no recorded answers"):
        validate_htsim(tmp_path)
    with pytest.raises(InputError, match="no recorded run is called so"):
        validate_htsim(folder(tmp_path, ("s", "one", 1, 1, 1, ONE)), only="two")


# Recorded command lines of RoCE, in Railyard's words.


def test_a_recorded_command_of_roce() -> None:
    read = command(
        "csg_htsim_roce -tm matrices/g_perm128_2MB.cm -nodes 128 -linkspeed 400000 -end 20000 -mtu 4150 -q 1000 "
        "-pfc_thresholds 48 60 -strat ecmp_host -paths 1"
    )
    assert not read.not_built
    assert read.preset == "roce-htsim"
    assert read.hashed
    settings = assign(fabric(read.preset).settings, read.sets)
    assert (settings.pfc_xoff_bytes, settings.pfc_xon_bytes) == (249_000, 199_200)
    assert settings.mtu_bytes == 4214


def test_a_command_of_our_own() -> None:
    read = command("railyard packet --fabric dcqcn-ns3 --traffic a.cm --set qps=2 --set seed=3")
    assert (read.preset, read.matrix, read.sets) == ("dcqcn-ns3", "a.cm", ["qps=2", "seed=3"])
