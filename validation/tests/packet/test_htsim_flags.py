"""Recorded command lines of RoCE, in Railyard's words."""

from railyard.work.scenario.packet import assign, fabric
from railyard_validation.packet.htsim_flags import command


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
