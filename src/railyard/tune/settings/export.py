"""Settings for the programs that take them: NCCL's environment, the table of its tuner plugin, switches in words.

The table is that of NCCL's example tuner (`ext-tuner/example`, `NCCL_TUNER_CONFIG_FILE`): collective, smallest and
largest size, algorithm, protocol, channels, nodes, ranks, operations in a pipeline, registered buffers; -1 is any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.collective.policy import MOST_CONNECTIONS

if TYPE_CHECKING:
    from railyard.tune.settings.search import Tuned

_ANY = -1
_LARGEST = 1 << 62
_FUNCTIONS = {"all-reduce": "allreduce", "all-gather": "allgather", "reduce-scatter": "reducescatter"}
_ALGORITHMS = {
    "ring": "ring",
    "tree": "tree",
    "pat": "pat",
    "nvls": "nvls",
    "nvls-tree": "nvls_tree",
    "collnet-direct": "collnet_direct",
    "collnet-chain": "collnet_chain",
}
_PROTOCOLS = {"ll": "ll", "ll128": "ll128", "simple": "simple"}
"""Words of the tables of NCCL's example tuner; in the environment they are without underscores."""


def environment(tuned: Tuned) -> str:
    """Lines of a shell script; what NCCL has no variable for is a comment."""
    lines = ["# NCCL 2.24 or newer, from railyard tune"]
    settings = tuned.settings
    if "qps" in settings:
        lines += [f"export NCCL_IB_QPS_PER_CONNECTION={settings['qps']}", "export NCCL_IB_SPLIT_DATA_ON_QPS=0"]
    if "collectives.connections" in settings:
        channels = _channels(tuned)
        lines += [f"export NCCL_MIN_NCHANNELS={channels}", f"export NCCL_MAX_NCHANNELS={channels}"]
    if settings.get("collectives.pxn") is False:
        lines.append("export NCCL_PXN_DISABLE=1")
    for key, name in (("collectives.algorithm", "NCCL_ALGO"), ("collectives.protocol", "NCCL_PROTO")):
        known = _ALGORITHMS if name == "NCCL_ALGO" else _PROTOCOLS
        chosen = _by_function(settings.get(key, {}), known)
        if chosen:
            words = ";".join(f"{kind}:{word.replace('_', '')}" for kind, word in chosen.items())
            lines.append(f'export {name}="{words}"')
        lines += [f"# {key} {kind}: {word}: not NCCL's to set" for kind, word in _others(settings.get(key, {}), known)]
    for key, value in settings.items():
        if key.startswith(("packet.", "cluster.", "workload.")) or key == "collectives.selector":
            lines.append(f"# {key}: {value}: not NCCL's to set")
    return "\n".join(lines) + "\n"


def tuner_table(tuned: Tuned) -> str:
    """Rows of the example tuner's table: one a collective that is fixed."""
    algorithms = _by_function(tuned.settings.get("collectives.algorithm", {}), _ALGORITHMS)
    protocols = _by_function(tuned.settings.get("collectives.protocol", {}), _PROTOCOLS)
    count = _channels(tuned)
    rows = ["# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,registered"]
    for kind in sorted({*algorithms, *protocols}):
        algorithm, protocol = algorithms.get(kind, "ring"), protocols.get(kind, "simple")
        rows.append(f"{kind},0,{_LARGEST},{algorithm},{protocol},{count},{tuned.servers},{tuned.ranks},{_ANY},{_ANY}")
    return "\n".join(rows) + "\n"


def _channels(tuned: Tuned) -> int:
    """Channels of a communicator, as many as NCCL has at most; any where nothing is said."""
    each = tuned.settings.get("collectives.connections")
    return _ANY if each is None else min(int(each) * max(tuned.nics, 1), MOST_CONNECTIONS)


def _by_function(values: dict[str, Any], known: dict[str, str]) -> dict[str, str]:
    """Choices by NCCL's names; those of one group alone, and what NCCL does not have, cannot be told to it."""
    return {
        _FUNCTIONS[kind]: known[str(word)] for kind, word in values.items() if kind in _FUNCTIONS and str(word) in known
    }


def _others(values: dict[str, Any], known: dict[str, str]) -> list[tuple[str, str]]:
    """Choices that cannot be told to NCCL."""
    return [(kind, str(word)) for kind, word in values.items() if kind not in _FUNCTIONS or str(word) not in known]
