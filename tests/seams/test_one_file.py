"""Each block of CONTRIBUTING is one file that adds one thing: it is used from the command line as a user would."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from tests.seams.shell import Shell

from railyard.kit.registry import VARIABLE

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin" / "src" / "railyard_example"
BLOCKS = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL))
SCENARIO = """\
name: seam
cluster:
  accelerators: 16
  server: {server}
  back_end: {{topology: {topology}, fabric: {fabric}}}
  placement: {placement}
workload:
  {workload}
{more}
"""
DEFAULTS = {
    "server": "hgx-h100",
    "topology": "leaf-spine",
    "fabric": "roce",
    "placement": "packed",
    "workload": "training: {model: llama-3.2-1b, global_batch: 16, sequence: 2048, parallelism: {tp: 2}}",
    "more": "",
}
CSV = "source,target,size_bytes\n0,5,2000000\n1,5,2000000\n"


class Yard(Shell):
    """A folder with one plugin."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, **{VARIABLE: str(folder / "plugins")})
        (folder / "plugins").mkdir()

    def add(self, name: str) -> None:
        (self.folder / "plugins" / f"{name}.py").write_text(BLOCKS.get(name) or (PLUGIN / f"{name}.py").read_text())

    def scenario(self, engine="flow", **given: str):
        """The one variant of a run's result."""
        text = SCENARIO.format(**{**DEFAULTS, **given})
        (self.folder / "seam.yaml").write_text(text)
        done = json.loads(self.railyard("run", "seam.yaml", "--json", "--engine", engine, "-q"))
        return done["variants"][0]

    def packet(self, *options: str):
        (self.folder / "flows.csv").write_text(CSV)
        return json.loads(
            self.railyard("packet", "--traffic", "flows.csv", "--set", "hosts=16", *options, "--json", "-q")
        )


@pytest.fixture
def shell(tmp_path):
    with Yard(tmp_path) as shell:
        yield shell


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The variant of the scenario with nothing added."""
    with Yard(tmp_path_factory.mktemp("plain")) as shell:
        return shell.scenario()


ACCELERATOR = """\
accelerators:
  slow-memory: {extends: h100-sxm, memory_bandwidth: 1.675 TB/s}
servers:
  slow-server: {extends: hgx-h100, accelerator: slow-memory}
"""
READER = """\
from railyard.ask.observe.reader import Count, Piece, Reader, readers


def read(source):
    piece = Piece(source.name)
    for line in source.everything().decode().splitlines()[1:]:
        device, port, value = line.split()
        piece.counts.append(Count(device, f"port {port}", "symbol_error", int(value)))
    return piece


readers.add("toy", Reader("toy", "a switch of our own", lambda name, head: head.startswith(b"toy counters"), read))
"""


HOPS = """\
from railyard.cluster.scale_up.groups import HopRing, ways_to_join

ways_to_join.add("ring-1-hop", HopRing(1, "a ring that every outage cuts"))
"""


def test_accelerator(shell, plain):
    """An entry of half the memory bandwidth: what is bound by memory takes longer, nothing else has to know of it."""
    (shell.folder / "mine.yaml").write_text(ACCELERATOR)
    slow = shell.scenario(more="catalog: mine.yaml\n", server="slow-server")
    assert 1.01 * plain["step"]["seconds"] < slow["step"]["seconds"] < 2 * plain["step"]["seconds"]
    assert "slow-server" in shell.refused("run", "seam.yaml", "--set", "cluster.server=slow-sever")


def test_topology(shell, plain):
    shell.add("star")
    star = shell.scenario(topology="{kind: star, spare_ports: 3}")
    assert star["step"]["seconds"] == pytest.approx(plain["step"]["seconds"], rel=0.05)
    assert "spare_ports" in shell.refused(
        "run", "seam.yaml", "--set", "cluster.back_end.topology={kind: star, spare_port: 3}"
    )
    packets = shell.scenario(engine="packet", topology="star")
    assert packets["step"]["seconds"] == pytest.approx(star["step"]["seconds"], rel=0.05)
    shell.railyard("deploy", "seam.yaml", "--out", "plan", "-q")
    with (shell.folder / "plan" / "cables.csv").open() as file:
        cables = [row for row in csv.DictReader(file) if row["network"] == "back-end"]
    assert len(cables) == 16
    assert len({row["b_device"] for row in cables}) == 1


def test_reader(shell):
    (shell.folder / "plugins" / "toy.py").write_text(READER)
    (shell.folder / "counters.txt").write_text("toy counters\nmlx5_0 1 90000\nmlx5_1 1 0\n")
    found = json.loads(shell.railyard("diagnose", "counters.txt", "--json"))
    assert "mlx5_0" in json.dumps(found["verdict"])


def test_fabric(shell):
    shell.add("sprayed")
    flow, packet = (shell.scenario(fabric="roce-sprayed", engine=engine) for engine in ("flow", "packet"))
    assert flow["step"]["seconds"] == pytest.approx(packet["step"]["seconds"], rel=0.1)
    alone = shell.packet("--fabric", "roce-sprayed")
    assert alone["digest"] != shell.packet("--fabric", "roce")["digest"]
    same = shell.packet("--fabric", "roce", "--set", "load_balancing=spray", "--set", "loss_recovery=selective")
    assert alone["digest"] == same["digest"]


def test_collective_algorithm(shell):
    shell.add("hub")
    ring, hub = (shell.scenario(more=f"collectives: {{algorithm: {{tp: {name}}}}}") for name in ("ring", "hub"))
    assert ring["digest"] != hub["digest"]
    kinds = {row["kind"]: row["algorithm"] for row in hub["collectives"] if row["group"] == "tp"}
    assert kinds == {"all-gather": "ring", "reduce-scatter": "ring", "all-reduce": "hub"}
    assert "hub" in shell.refused("run", "seam.yaml", "--set", "collectives.algorithm.tp=hubb")


def test_kind_of_fault(shell, plain):
    shell.add("brown_out")
    slow = shell.scenario(more="faults: [{kind: brown-out, switch: leaf 0, at: 1 ms}]")
    assert plain["digest"] != slow["digest"]
    assert "leaf 0" in shell.refused("run", "seam.yaml", "--set", "faults=[{kind: brown-out, switch: leav 0}]")
    (shell.folder / "faults.yaml").write_text("faults: [{kind: brown-out, switch: leaf0}]")
    assert shell.packet("--faults", "faults.yaml")["digest"] != shell.packet()["digest"]


def test_placement_policy(shell, plain):
    shell.add("backward")
    backward = shell.scenario(placement="backward")
    assert plain["step"]["seconds"] == pytest.approx(backward["step"]["seconds"], rel=0.01)
    assert "backward" in shell.refused("run", "seam.yaml", "--set", "cluster.placement=backwards")


def test_way_to_join_nodes(shell):
    (shell.folder / "plugins" / "hops.py").write_text(HOPS)
    rows = ["day,node,event", *(f"{day},{day},{event}" for day in range(1, 28) for event in ("fault_start",))]
    (shell.folder / "faults.csv").write_text("\n".join(rows) + "\n")
    asked = ("operate", "failures", "--fit", "faults.csv", "--servers", "400", "--days", "28", "--group", "32")
    idle = json.loads(shell.railyard(*asked, "--json"))["idle_share"]
    assert idle["ring-1-hop"] > idle["ring-2-hop"] > 0


def test_exporter(shell):
    shell.add("gantt")
    shell.packet("--fabric", "roce", "--out", "runs")
    run = next((shell.folder / "runs").iterdir())
    shell.railyard("export", str(run), "--as", "gantt", "--out", "bars.csv")
    rows = [line.split(",") for line in (shell.folder / "bars.csv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["0", "0"], ["1", "0"]]
    assert "gantt, kineto, parquet, perfetto" in shell.refused("export", str(run), "--as", "gannt")


def test_load_balancer_in_python(shell):
    shell.add("two_paths")
    found = shell.packet("--fabric", "uec", "--set", "load_balancing=two-paths")
    assert found["finished"] == 2
    assert found["digest"] != shell.packet("--fabric", "uec")["digest"]
    assert "two-paths" in shell.refused("packet", "--traffic", "flows.csv", "--set", "load_balancing=two-path")


def test_contract_tests_of_the_rooms_hold_what_is_added(shell):
    for name in ("star", "sprayed", "hub", "backward"):
        shell.add(name)
    rooms = ("cluster/test_topologies.py", "cluster/test_fabrics.py", "cluster/test_management.py")
    files = [str(ROOT / "tests" / name) for name in (*rooms, "collective/test_schedules.py")]
    chosen = "star or roce-sprayed or backward or hub-ALL_REDUCE"
    out = shell.python("-m", "pytest", *files, "-k", chosen, "-p", "no:cacheprovider", "-vv", f"--rootdir={ROOT}")
    for name in ("star", "roce-sprayed", "backward", "hub-ALL_REDUCE"):
        assert re.search(rf"\[.*{name}.*\] PASSED", out), out
