"""The test that would settle a symptom or a verdict: ordered, with the value that the model expects.

Each step says what to run, what comes out if that part is healthy, and what it means where it does not. Cheap tests
that disturb nobody come first, those that need idle hosts after them, changes of hardware last.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard.ask.observe.expected import expected_s
from railyard.ask.observe.kernels import BUSBW
from railyard.kit.errors import InputError, did_you_mean
from railyard.measure.result.answers import EVEN, TestStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.observe.diagnosis.verdict import Diagnosis
    from railyard.cluster import Cluster

SIZE = 1 << 30
"""Bytes of the collectives that are run: large enough that latency does not matter."""

TOO_LOW = 0.8
"""Share of the expected rate below which something is wrong: nine of ten published runs are nearer to the model
(docs/validation/collectives.md)."""

CLOCKS = "nvidia-smi -q -d CLOCK,PERFORMANCE,ECC,TEMPERATURE"
COUNTERS = "railyard diagnose counters/, on two captures of perfquery, ethtool -S or node_exporter, one minute between"


def _test(run: str, expected: str, otherwise: str) -> TestStep:
    return TestStep(run=run, expected=expected, otherwise=otherwise)


_TRACES = _test(
    "record about ten steps on all ranks (torch.profiler) and run railyard diagnose traces/ --cluster FILE",
    "nothing is wrong",
    "a rank, accelerator or host is named: run its tests",
)


def after(answer: Diagnosis, cluster: Cluster | None) -> list[TestStep]:
    """What to do after a diagnosis: about the surest part, or more traces first; where none can be named, halves."""
    more = [_TRACES] if answer.short else []
    if answer.verdict:
        first = answer.verdict[0]
        tests = _KINDS.get(first.kind, _software)(first.part, cluster)
        return more + tests if first.confidence < EVEN else tests + more
    return more + _halves(cluster) if answer.unknown else []


def of_symptom(symptom: str, cluster: Cluster | None) -> list[TestStep]:
    """Tests if only the symptom is known.

    Raises:
        InputError: It is none of those that are known.
    """
    if symptom not in _SYMPTOMS:
        raise InputError(
            "unknown symptom",
            key="--symptom",
            found=symptom,
            allowed=list(SYMPTOMS),
            hint=did_you_mean(symptom, SYMPTOMS),
        )
    return _SYMPTOMS[symptom](cluster)


def _busbw(cluster: Cluster | None, hosts: int) -> str:
    if cluster is None:
        return "the same as similar hosts (with --cluster: what the model expects)"
    ranks = min(hosts * cluster.ranks_per_server, cluster.ranks)
    seconds = expected_s(cluster, "all_reduce", SIZE, ranks)
    if not seconds:
        return "the same as similar hosts"
    rate = SIZE * BUSBW["all_reduce"](ranks) / seconds / 1e9
    return f"about {rate:.0f} GB/s busbw on {ranks} ranks, at least {TOO_LOW * rate:.0f}"


def _link_gbs(cluster: Cluster | None) -> str:
    if cluster is None:
        return "the same as between two other hosts"
    links, network = cluster.links, cluster.back_end
    source = links.source[: links.physical]
    nic = int(((source >= network.node_offset) & (source < network.node_offset + network.ports)).argmax())
    rate = float(links.rate_bps[nic]) * cluster.fabric.payload_efficiency / 8e9
    return f"about {rate:.1f} GB/s, at least {0.95 * rate:.1f}"


def _perf(where: str) -> str:
    return f"all_reduce_perf -b 1G -e 1G {where}"


def _network(part: str, cluster: Cluster | None) -> list[TestStep]:
    return [
        _test(
            f"{COUNTERS}; look at {part}",
            "symbol errors, CRC errors and link-down counters do not grow",
            "they grow: the cable or its modules; clean, reseat, then replace",
        ),
        _test(
            f"ib_write_bw (or iperf3) over {part} alone, both ways, hosts idle",
            _link_gbs(cluster),
            "less in one direction: that end's NIC, its PCIe slot or the module; in both: the cable or its switch port",
        ),
        _test(
            _perf(f"on two hosts whose path crosses {part}, then on two whose path does not"),
            f"{_busbw(cluster, 2)}, and the same on both pairs",
            "only the first pair is slow: it is this part; both are slow: check hosts and settings",
        ),
        _test(
            f"route traffic around {part} (admin down, or another host) for some steps",
            "the job's step becomes as short as predicted",
            "the step stays long: it was another part; put this one back and diagnose a new record",
        ),
    ]


def _accelerator(part: str, cluster: Cluster | None) -> list[TestStep]:
    return [
        _test(
            f"{CLOCKS} on {part} and on two others",
            "the same clocks, no throttling, no ECC errors",
            "throttling: cooling or power; ECC: rows are remapped, drain it",
        ),
        _test(
            f"dcgmi diag -r 3 on {part}, host idle",
            "all tests pass",
            "the failing test names the part: memory, PCIe, power, SM stress",
        ),
        _test(
            _perf(f"on the host of {part} alone"),
            _busbw(cluster, 1),
            "less: its scale-up links are slow (nvidia-smi nvlink -e), not its compute",
        ),
        _test(
            f"the job without the host of {part} for some steps",
            "the step becomes as short as predicted",
            "the step stays long: input data or software of the rank is slow, not the machine",
        ),
    ]


def _host(part: str, cluster: Cluster | None) -> list[TestStep]:
    return [
        _test(
            f"py-spy record of the processes of {part} and of their data workers; with mpstat and iostat",
            "they launch kernels, and wait for nothing but the accelerator",
            "they read, decode, collect garbage, or share their cores with another process",
        ),
        _test(
            f"{CLOCKS}; dmesg; cpupower frequency-info; numastat on {part}",
            "the same as its neighbours",
            "power cap, thermal limit, another process, wrong NUMA binding",
        ),
        *_accelerator(part, cluster)[2:],
    ]


def _rank(part: str, cluster: Cluster | None) -> list[TestStep]:
    return [
        _test(
            "a second capture of RAS (ncclras) or the flight recorder half a minute later",
            "counts have grown: the job still runs",
            f"they have not grown, and {part} is behind: it hangs",
        ),
        _test(
            f"py-spy dump of the process of {part}, and of one that waits",
            "both wait in the same collective",
            "it waits elsewhere: data loader, checkpoint, another branch of the program",
        ),
        _test(
            f"dmesg and XID on the host of {part}",
            "nothing",
            "XID 79, 94, 95 or a link that went down: drain the host",
        ),
        _test(
            _perf(f"on the host of {part} and one other, job stopped"),
            _busbw(cluster, 2),
            "it hangs or is slow: the host is at fault; it is fast: the program is",
        ),
    ]


def _software(part: str, _: Cluster | None) -> list[TestStep]:
    return [
        _test(
            f"compare shapes and order of the collectives of {part} (flight recorder, NCCL_DEBUG_SUBSYS=COLL)",
            "equal on all members",
            "they differ from some call on: check the program's branch before it",
        )
    ]


def _sequences(part: str, _: Cluster | None) -> list[TestStep]:
    return [
        _test(
            f"log the lengths of the sequences in each micro-batch, on {part} and on two others",
            "the same sum of squared lengths, which sets attention time",
            "they differ: pack or sort batches by that sum",
        ),
        _test(
            f"give {part} the batches of another rank for some steps",
            "attention is slow on the other rank now",
            f"it is still slow on {part}: {CLOCKS}",
        ),
    ]


def _experts(part: str, _: Cluster | None) -> list[TestStep]:
    return [
        _test(
            f"log the tokens that the router sends to each expert, on {part} and on two others",
            "about as many on every rank",
            "more than the mean: raise the balancing loss or bias, set a capacity factor, or spread hot experts",
        ),
        _test(
            "the same job with balanced routing (Megatron: --moe-router-force-load-balancing)",
            "expert GEMMs take as long on every rank",
            f"they are still slow on {part}: {CLOCKS}",
        ),
    ]


def _halves(cluster: Cluster | None) -> list[TestStep]:
    """Bisection over hosts: as many rounds as the logarithm of their number."""
    hosts = 0 if cluster is None else -(-cluster.ranks // cluster.ranks_per_server)
    half = max(hosts // 2, 1)
    rounds = f"{max(math.ceil(math.log2(max(hosts, 2))), 1)} rounds" if hosts else "about log2(hosts) rounds"
    return [
        _test(
            COUNTERS,
            "no port has errors; ibnetdiscover's output in the same folder traces the ports that wait",
            "a port is named: test that port",
        ),
        _test(
            _perf("on all hosts, job stopped"),
            _busbw(cluster, hosts),
            "less: go to the next test; as expected: it is the program, its data or its placement",
        ),
        _test(
            _perf("on each half of the hosts, by leafs, at the same time")
            + f"; then on halves of the slow half, {rounds}",
            f"{_busbw(cluster, half)} on both halves",
            "one half is slow: the part is in it; both are fast: a cable between them",
        ),
    ]


def _slow(cluster: Cluster | None) -> list[TestStep]:
    return [
        _TRACES,
        _test(
            "NCCL inspector's log: railyard observe inspector/ --cluster FILE",
            f"every collective at {TOO_LOW:.0%} of the model or more",
            "one communicator is slow in all kinds: its network; one size is slow everywhere: settings"
            " (algorithm, protocol)",
        ),
        *_halves(cluster),
    ]


def _flapping(cluster: Cluster | None) -> list[TestStep]:
    return [
        _test(
            "link_downed and carrier transitions of both ends, now and after ten minutes",
            "the counts do not grow",
            "one end alone grows: its module or port; both: the cable",
        ),
        _test(
            "the module's light and temperature at both ends (mlxlink -m, ethtool -m)",
            "receive power within the module's range, equal within 2 dB over lanes",
            "one lane is low: clean the fibre; all lanes are low: the fibre is bent or too long; hot: airflow",
        ),
        _test(
            "swap the modules of the two ends",
            "the flapping follows one of the modules",
            "it stays at the port: the port; it stays with the cable: the cable",
        ),
        _test("ib_write_bw over the cable for ten minutes", _link_gbs(cluster), "dips: keep it out of the fabric"),
    ]


def _hang(cluster: Cluster | None) -> list[TestStep]:
    return [
        _test(
            "ncclras -f json (SET FORMAT json, STATUS at port 28028), or flight recorder dumps, in a folder:"
            " railyard diagnose FOLDER",
            "no rank is missing and counts agree: no collective hangs",
            "a rank is named: test that rank",
        ),
        *_rank("that rank", cluster),
    ]


_KINDS: dict[str, Callable[[str, Cluster | None], list[TestStep]]] = {
    "cable": _network,
    "nic": _network,
    "switch": _network,
    "accelerator": _accelerator,
    "stage": _accelerator,
    "host": _host,
    "rank": _rank,
    "software": _software,
    "sequences": _sequences,
    "experts": _experts,
}
_SYMPTOMS: dict[str, Callable[[Cluster | None], list[TestStep]]] = {"slow": _slow, "flapping": _flapping, "hang": _hang}
SYMPTOMS = tuple(_SYMPTOMS)
