"""Every reader of files from strangers, as a function of a path, with what it may be begun with.

A reader may give what it read or raise a `RailyardError`; anything else is a fault.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
LARGEST = 1 << 17
"""Bytes of a file that is begun with: larger ones are cut, or left out where a cut one is none of its kind."""


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        name: Of its folder in the corpus.
        group: Readers that are tried together.
        read: What is called with a file.
        suffix: Of the file; with a name before it, the file's name.
        files: Patterns of files in this repository that it reads.
    """

    name: str
    group: str
    read: Callable[[Path], Any]
    suffix: str
    files: tuple[str, ...] = ()

    def place(self, folder: Path) -> Path:
        """A path in a folder for a file that it reads."""
        return folder / (self.suffix if not self.suffix.startswith(".") else f"file{self.suffix}")

    def seeds(self) -> Iterator[bytes]:
        """What to begin with: the corpus, then files of the repository."""
        kept = sorted((CORPUS / self.name).glob("*")) if (CORPUS / self.name).is_dir() else []
        others = sorted({path for pattern in self.files for path in ROOT.glob(pattern) if path.is_file()})
        for path in (*kept, *others):
            if path.suffix != ".parquet" or path.stat().st_size <= LARGEST:
                yield path.read_bytes()[:LARGEST]


def _scenario(path: Path) -> Any:
    from railyard.work.scenario import load

    return load.load(path)


def _mix(path: Path) -> Any:
    from railyard.work.scenario.packet import mix

    return mix.load(path)


def _catalog(path: Path) -> Any:
    from railyard import catalog

    return catalog.load(path)


def _model(path: Path) -> Any:
    from railyard.catalog.hugging_face import hf_config

    model = hf_config.read(path)
    assert model.parameters() > 0
    return model


def _constants(path: Path) -> Any:
    from railyard.collective.constants import read_constants

    return read_constants(path)


def _software(path: Path) -> Any:
    from railyard.work.training.pace import read_runs

    return read_runs(path)


def _importer(name: str | None) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        from railyard.work.trace import formats

        return formats.read(path, name)

    return read


def _htsim_topology(path: Path) -> Any:
    from railyard.work.traffic import htsim_topology

    return htsim_topology.read(path)


@cache
def _wired() -> tuple[Any, Any]:
    """A network and the names of its links."""
    from railyard.work.traffic import htsim_topology, simulate
    from railyard.work.traffic.htsim_wiring import LINK_TIERS, wire
    from railyard.work.traffic.played import LinkNames

    tree = htsim_topology.read(ROOT / "tests" / "engine" / "packet" / "data" / "leaf_spine_tiny.topo")
    network = wire(tree)
    return simulate._network(network, 1), LinkNames(tree, network, LINK_TIERS)


def _faults(path: Path) -> Any:
    from railyard.work.traffic.faults import read_document, read_table

    read = read_table if path.suffix == ".csv" else read_document
    return read(path, *_wired())


def _network(path: Path) -> Any:
    from railyard.collective.synthesis.network import read_network

    return read_network(path)


def _matrix(path: Path) -> Any:
    from railyard.collective.synthesis.uneven import read_matrix

    return read_matrix(path)


def _msccl(path: Path) -> Any:
    from railyard.collective.synthesis import written

    return written.of_file(path)


def _trace(name: str | None) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        from railyard.work.serving.traces.reading import read_trace

        requests = read_trace(path, name, sort=True)
        assert len(requests) >= 1
        return requests

    return read


def _lengths(path: Path) -> Any:
    from railyard.work.serving.traces.reading import read_lengths

    return read_lengths(path)


def _profiles(path: Path) -> Any:
    from railyard.work.serving.software import read_profiles

    return read_profiles(path)


def _jobs(path: Path) -> Any:
    from railyard.work.operate import trace

    return trace.read(path)


def _nodes(name: str | None) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        from railyard.work.operate.place_input import read_nodes

        return read_nodes(path, name)

    return read


def _stream(path: Path) -> Any:
    from railyard.work.operate.place_input import read_stream
    from railyard.work.operate.tree import NodeTree

    return read_stream(path, NodeTree.listed([f"n{number}" for number in range(8)], 8, []))


def _history(path: Path) -> Any:
    from railyard.work.operate.failures import history

    return history.read(path, 100, 30.0)


def _kueue(path: Path) -> Any:
    from railyard.work.operate.kueue.state import read_cluster

    return read_cluster([path])


def _observe(path: Path) -> Any:
    """By every reader, whichever recognises it: a name or four bytes keep none from another's file."""
    from railyard.ask.observe.gather import gather
    from railyard.ask.observe.reader import readers, sources
    from railyard.kit.errors import InputError

    for source in sources(path):
        for name in readers:
            with suppress(InputError):
                readers.get(name).read(source)
    return gather(path)


def _operations(path: Path) -> Any:
    from railyard.ask.observe.operations import read_operations

    return read_operations(path)


def _table(path: Path) -> Any:
    from railyard.ask.calibrate import measurements

    found, source = measurements.read(path)
    return found, source


def _nccl(path: Path) -> Any:
    from railyard.ask.calibrate.nccl import log

    return log.read(path)


def _recorded(path: Path) -> Any:
    from railyard.ask.calibrate.recorded import read_runs

    about = '{"engine_kwargs": {"model": "m", "max_num_seqs": 8, "max_num_batched_tokens": 64}}'
    (path.parent / "meta.json").write_text(about, encoding="utf-8")
    return read_runs(path.parent)


def _ibnetdiscover(path: Path) -> Any:
    from railyard.cluster.asbuilt import ibnetdiscover
    from railyard.kit.files import read_text

    return ibnetdiscover.read(read_text(path), path.name)


def _netbox(path: Path) -> Any:
    from railyard.cluster.asbuilt import netbox

    return netbox.read(path)


def _lldp(path: Path) -> Any:
    from railyard.cluster.asbuilt import lldp

    return lldp.read(path.parent)


def _nccl_tree(path: Path) -> Any:
    from railyard.cluster.nccl import machine
    from railyard.kit.files import read_text

    return machine.read(read_text(path), path.name, "system")


def _acceptance(path: Path) -> Any:
    from railyard.ask.accept import tests

    return tests.read(path)


def _results(path: Path) -> Any:
    from railyard.ask.accept.results import collected

    return collected(path, [])


def _result(path: Path) -> Any:
    from railyard.work.study.folder import read_result

    return read_result(path)


def _record(path: Path) -> Any:
    from railyard.graph.parquet import read_record, read_table
    from railyard.kit.errors import InputError

    with suppress(InputError):
        read_table(path, "links")
    return read_record(path)


def _graph(path: Path) -> Any:
    from railyard.graph.parquet import read_graph

    return read_graph(path)


def _tokens(path: Path) -> Any:
    from railyard.face.web.settings import read_tokens

    return read_tokens(path)


_YAML = ("examples/*.yaml", "examples/*/*.yaml")
_CAPTURES = ("tests/ask/observe/data/*", "tests/ask/observe/data/captures/*")

TARGETS: tuple[Target, ...] = (
    Target("scenario", "scenario", _scenario, ".yaml", _YAML),
    Target("mix", "scenario", _mix, ".yaml", ("examples/packet/my_fabric.yaml",)),
    Target("catalog", "scenario", _catalog, ".yaml"),
    Target("model", "scenario", _model, ".json", ("tests/catalog/data/*/config.json",)),
    Target("constants", "scenario", _constants, ".toml"),
    Target("software", "scenario", _software, ".toml"),
    Target("traffic", "traffic", _importer(None), ".any", ("tests/engine/packet/data/*.cm", "examples/traces/*.goal")),
    Target("csv", "traffic", _importer("csv"), ".csv"),
    Target("htsim", "traffic", _importer("htsim"), ".cm", ("tests/engine/packet/data/*.[ct]m",)),
    Target("goal", "traffic", _importer("goal"), ".goal", ("examples/traces/*.goal",)),
    Target("chakra", "traffic", _importer("chakra"), ".json", ("tests/work/trace/data/*.json",)),
    Target("htsim-topology", "traffic", _htsim_topology, ".topo", ("tests/engine/packet/data/*.topo",)),
    Target("faults", "traffic", _faults, ".csv"),
    Target("fault-file", "traffic", _faults, ".yaml"),
    Target("links", "traffic", _network, ".csv", ("validation/src/railyard_validation/data/teccl_links.csv",)),
    Target("matrix", "traffic", _matrix, ".csv"),
    Target("msccl", "traffic", _msccl, ".xml"),
    Target("requests", "requests", _trace(None), ".jsonl", ("tests/work/serving_requests/data/*.*[vl]",)),
    Target("lengths", "requests", _lengths, ".csv"),
    Target("profiles", "requests", _profiles, ".toml", ("src/railyard/work/serving/data/devices.toml",)),
    Target("jobs", "operate", _jobs, ".csv", ("examples/operate/*.csv",)),
    Target("nodes", "operate", _nodes(None), ".conf"),
    Target("stream", "operate", _stream, ".csv"),
    Target("history", "operate", _history, ".csv"),
    Target("kueue", "operate", _kueue, ".yaml"),
    Target("observe", "observe", _observe, ".json", _CAPTURES),
    Target("operations", "observe", _operations, ".parquet", ("tests/ask/observe/data/operations-ST.parquet",)),
    Target("table", "observe", _table, ".csv", ("tests/work/training_model/data/*.csv",)),
    Target("nccl-log", "observe", _nccl, ".log"),
    Target("recorded", "observe", _recorded, "requests.jsonl"),
    Target("ibnetdiscover", "built", _ibnetdiscover, ".txt"),
    Target("netbox", "built", _netbox, ".csv"),
    Target("netbox-json", "built", _netbox, ".json"),
    Target("lldp", "built", _lldp, ".json"),
    Target("nccl-tree", "built", _nccl_tree, ".xml"),
    Target("acceptance", "built", _acceptance, ".csv"),
    Target("results", "built", _results, ".csv"),
    Target("result", "kept", _result, ".json"),
    Target("record", "kept", _record, ".parquet"),
    Target("graph", "kept", _graph, ".parquet"),
    Target("tokens", "kept", _tokens, ".txt"),
)
"""All of them, by group."""
