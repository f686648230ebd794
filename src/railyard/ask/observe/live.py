"""A cluster while it runs, by its Prometheus: expected values, and alerts that were tried on simulated faults."""

from __future__ import annotations

import http.client
import json
import math
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.observe.diagnosis.peers import routed
from railyard.ask.observe.diagnosis.simulated import measured_graph
from railyard.ask.observe.kernels import BUSBW
from railyard.cluster.names import node_name
from railyard.graph import Kind
from railyard.graph.task_graph import CollectiveKind
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.ask.observe.expected import Drift
    from railyard.cluster import Cluster
    from railyard.graph import Record


BUSBW_METRIC = "nccl_bus_bandwidth_gbs"
"""NCCL inspector's: GB/s; labels `collective`, `message_size` (a range), `nranks`, `n_nodes`, `comm_name`, `node`,
`gpu`."""

KEYS = ("collective", "message_size", "nranks", "n_nodes")
"""Labels by which a value is expected; older exporters write no `n_nodes`, which is then empty."""

EXPECTED = "railyard_expected_bus_bandwidth_gbs"
"""Expected values of the model, by `KEYS`."""

CALIBRATED = "railyard_calibrated_bus_bandwidth_gbs"
"""The same with the constants that were learned from the cluster."""

FACTOR = "railyard_calibration_factor"
MAPE = "railyard_expectation_error_ratio"
"""Metric of the errors in the latest hour, by `of`: of the model as it is, or with what was learned."""

RATIO = "railyard:nccl_bus_bandwidth:ratio"
SYMBOL_ERRORS = "node_infiniband_symbol_error_total"
TRANSMIT_WAIT = "node_infiniband_port_transmit_wait_total"
TRANSMITTED = "node_infiniband_port_data_transmitted_bytes_total"
LINK_DOWNED = "node_infiniband_link_downed_total"
XID = "DCGM_FI_DEV_XID_ERRORS"

_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_RANGE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGT]?B)?\s*(?:-\s*(\d+(?:\.\d+)?)\s*([KMGT]?B))?\s*$", re.IGNORECASE)


def size_of(message_size: str) -> int | None:
    """Bytes at the lower end of a range such as `512-513MB`; None where it is no such range."""
    found = _RANGE.match(message_size)
    if found is None:
        return None
    unit = (found[2] or found[4] or "B").upper()
    return max(int(float(found[1]) * _UNITS[unit]), 1)


def range_of(size_bytes: int) -> str:
    """The range that NCCL inspector would write, in whole units: `512-513MB`."""
    for unit, factor in reversed(_UNITS.items()):
        if size_bytes >= factor:
            return f"{size_bytes // factor}-{size_bytes // factor + 1}{unit}"
    return "0-1B"


def line(name: str, labels: dict[str, str], value: float, at_s: float | None = None) -> str:
    """A sample of the exposition format, or of OpenMetrics where it has a time."""
    words = ",".join(f'{key}="{_escaped(text)}"' for key, text in sorted(labels.items()))
    return f"{name}{{{words}}} {value:.10g}" + ("" if at_s is None else f" {at_s:.3f}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


LOOPBACK = "127.0.0.1"
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

LabelKey = tuple[str, ...]


def labels_of(key: LabelKey) -> dict[str, str]:
    """Labels by name; an empty one is left out, as Prometheus reads it."""
    return {name: text for name, text in zip(KEYS, key, strict=True) if text}


def page(expected: Mapping[LabelKey, float], calibrated: Mapping[LabelKey, float], drift: Drift) -> str:
    """The page: expected values, those with constants learned from the cluster, and their errors.

    Args:
        expected: GB/s by `metrics.KEYS`.
        calibrated: The same with the constants that are applied.
        drift: Constants and errors.
    """
    lines = []
    for name, rates, words in (
        (EXPECTED, expected, "Bus bandwidth that the model expects, GB/s."),
        (CALIBRATED, calibrated, "The same with constants learned from this cluster, GB/s."),
    ):
        lines += [f"# TYPE {name} gauge", f"# HELP {name} {words}"]
        lines += [line(name, labels_of(key), rate) for key, rate in sorted(rates.items())]
    lines += [f"# TYPE {FACTOR} gauge", f"# HELP {FACTOR} Learned time over the model's, by class."]
    lines += [line(FACTOR, {"class": name}, one.factor) for name, one in sorted(drift.classes.items())]
    lines += [f"# TYPE {MAPE} gauge", f"# HELP {MAPE} Mean absolute error of predictions in an hour."]
    for hour, which in ((hour, which) for hour in drift.hours[-1:] for which in ("model", "calibrated")):
        said = hour.plain()
        lines.append(line(MAPE, {"of": which}, said["mape_model" if which == "model" else "mape"]))
    return "\n".join([*lines, "# EOF"]) + "\n"


@dataclass
class MetricsServer:
    """A server of one page.

    Attributes:
        port: To listen at; 0: any that is free.
    """

    port: int
    address: str = LOOPBACK
    _text: bytes = b"# EOF\n"
    _server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        """Begins to listen.

        Raises:
            InputError: It cannot listen there.
        """
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0

            def do_GET(self) -> None:
                found = self.path.split("?")[0] == "/metrics"
                body = exporter._text if found else b"the page is /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *_: Any) -> None:
                """Logs nothing: requests are private."""

        try:
            self._server = ThreadingHTTPServer((self.address, self.port), Handler)
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot listen: {error}", key="--export", found=f"{self.address}:{self.port}") from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Address of its page."""
        return f"http://{self.address}:{self.port}/metrics"

    def show(self, text: str) -> None:
        """Sets the metrics that it serves from now on."""
        self._text = text.encode()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


MOST_BYTES = 64 << 20
SECONDS = 20.0


@dataclass(frozen=True)
class Sample:
    """A value of a series."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """A server.

    Attributes:
        url: Such as `http://localhost:9090`.
    """

    url: str

    def __post_init__(self) -> None:
        """Refuses what is no address."""
        try:
            said = urllib.parse.urlsplit(self.url)
            known = said.scheme in ("http", "https") and bool(said.hostname) and self.url.isprintable()
        except ValueError:
            known = False
        if not known:
            raise InputError(
                "expected the address of a Prometheus", key="--prometheus", found=self.url, allowed="http://HOST:9090"
            )

    def query(self, expression: str) -> list[Sample]:
        """Instant values; those that are no finite numbers are left out.

        Raises:
            InputError: The server does not answer, or refuses the expression.
        """
        data = self._get("query", {"query": expression})
        found = data.get("result") if isinstance(data, dict) else None
        samples = []
        for one in found if isinstance(found, list) else ():
            try:
                value, labels = float(one["value"][1]), {str(k): str(v) for k, v in one["metric"].items()}
            except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError):
                raise InputError(
                    "the answer is not as Prometheus writes it", key="--prometheus", found=str(one)[:200]
                ) from None
            labels.pop("__name__", None)
            if math.isfinite(value):
                samples.append(Sample(labels, value))
        return samples

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that are pending or firing: `labels`, `annotations`, `state`, `activeAt`.

        Raises:
            InputError: The server does not answer.
        """
        found = self._get("alerts", {})
        listed = found.get("alerts") if isinstance(found, dict) else None
        return [one for one in listed if _is_alert(one)] if isinstance(listed, list) else []

    def _get(self, what: str, arguments: dict[str, str]) -> Any:
        address = f"{self.url.rstrip('/')}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                body = json.loads(answer.read(MOST_BYTES))
        except urllib.error.HTTPError as error:
            raise InputError(f"Prometheus answered {error.code} to `{what}`", found=self.url) from None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise InputError(f"Prometheus does not answer: {error}", key="--prometheus", found=self.url) from None
        if not isinstance(body, dict) or body.get("status") != "success":
            raise InputError(f"Prometheus refused `{what}`", found=str(body)[:200])
        return body.get("data")


def _is_alert(one: Any) -> bool:
    return isinstance(one, dict) and all(isinstance(one.get(key, {}), dict) for key in ("labels", "annotations"))


Labels = tuple[tuple[str, str], ...]


def busbw_gbs(record: Record, per_host: int) -> dict[Labels, float]:
    """GB/s of every communicator's collectives, the median, by labels as NCCL inspector writes them."""
    graph = record.graph
    found: dict[Labels, list[float]] = {}
    for task in np.flatnonzero((graph.kind == Kind.COLLECTIVE) & record.ended).tolist():
        group, size = int(graph.rank[task]), int(graph.size_bytes[task])
        members = graph.communicators.members(group)
        ranks = len(members)
        kind = CollectiveKind(graph.collective[task])
        seconds = float(record.end_ps[task] - record.start_ps[task]) * 1e-12 / max(int(graph.count[task]), 1)
        if seconds <= 0 or ranks < 2 or kind.name.lower() not in BUSBW:
            continue
        labels = {
            "collective": "".join(word.capitalize() for word in kind.name.split("_")),
            "comm_name": f"{graph.communicators.group[group]} {group}",
            "message_size": range_of(size),
            "n_nodes": str(len(np.unique(members // per_host))),
            "nranks": str(ranks),
        }
        rate = size * BUSBW[kind.name.lower()](ranks) / seconds / 1e9
        found.setdefault(tuple(sorted(labels.items())), []).append(rate)
    return {key: float(np.median(rates)) for key, rates in found.items()}


def expected_gbs(record: Record, per_host: int) -> dict[Labels, float]:
    """What a run as it should be expects, by `metrics.KEYS`: the median over communicators."""
    alike: dict[Labels, list[float]] = {}
    for key, rate in busbw_gbs(record, per_host).items():
        alike.setdefault(tuple(label for label in key if label[0] != "comm_name"), []).append(rate)
    return {key: float(np.median(rates)) for key, rates in alike.items()}


def undisturbed(faulty: Record, cluster: Cluster, seed: int) -> Record:
    """The same step with the computations that were measured, on the cluster as it should be.

    Args:
        faulty: A step, with its graph.
        cluster: On which it ran.
        seed: By how much the seed of the switches' hashes may have been moved on.
    """
    said = faulty.meta.get("seed")
    seeds = [seed, *([said] if isinstance(said, int) else [])]
    return routed(measured_graph(faulty), cluster, faulty, seeds).replay()


def openmetrics(
    healthy: Record, faulty: Record, cluster: Cluster, *, start_s: float, fault_s: float, end_s: float, every_s: float
) -> Iterator[str]:
    """Lines of an hour or so, metric by metric."""
    times = np.arange(start_s, end_s, every_s)
    per_host = cluster.ranks_per_server
    rates = busbw_gbs(healthy, per_host), busbw_gbs(faulty, per_host)
    yield f"# TYPE {BUSBW_METRIC} gauge"
    for key in rates[0]:
        for at in times.tolist():
            yield line(BUSBW_METRIC, dict(key), rates[at >= fault_s].get(key, 0.0), at)
    yield f"# TYPE {EXPECTED} gauge"
    for key, rate in expected_gbs(healthy, per_host).items():
        for at in times.tolist():
            yield line(EXPECTED, dict(key), rate, at)
    yield f"# TYPE {TRANSMITTED.removesuffix('_total')} counter"
    for link, labels in _ports(cluster):
        steps = [record.tables["links"]["bytes"][link] / (record.makespan_ps * 1e-12) for record in (healthy, faulty)]
        for at in times.tolist():
            sent = steps[0] * (min(at, fault_s) - start_s) + steps[1] * max(at - fault_s, 0.0)
            yield line(TRANSMITTED, labels, max(sent, 0.0), at)
    yield "# EOF"


def _ports(cluster: Cluster) -> Iterator[tuple[int, dict[str, str]]]:
    network = cluster.back_end
    sources = cluster.links.source[: cluster.links.physical]
    inside = (sources >= network.node_offset) & (sources < network.node_offset + network.ports)
    for link in np.flatnonzero(inside).tolist():
        name = node_name(cluster, int(sources[link])).removeprefix(f"{network.name} ").split()
        yield link, {"instance": f"server-{name[1]}", "device": f"mlx5_{name[3] if len(name) > 3 else 0}", "port": "1"}
