"""Text that exporters of Prometheus serve: of DCGM, node_exporter (InfiniBand, ethtool), NCCL inspector.

A sample is `name{label="value",...} number [time]`. Who counted is in the labels: `Hostname`, `instance`, `node` or
`host`, and `device`, `port`, `gpu` or `interface`.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.reader import (
    Count,
    Piece,
    Reader,
    add_text_reader,
    decoded_json,
    float_or_nan,
    is_count,
    readers,
)
from railyard.cluster.asbuilt import ibnetdiscover
from railyard.cluster.asbuilt.reported import switches
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.observe.reader import TraceSource


def _read_perfquery(source: TraceSource) -> Piece:
    """Counters of every port.

    Raises:
        InputError: There is none.
    """
    piece = Piece(source.name)
    text = source.text()
    piece.counts += [Count(one.device, f"port {one.port}", one.name, one.value) for one in switches.counts(text)]
    if not piece.counts and not switches.healthy(text[: 1 << 16]):
        raise InputError("it has no port counters", file=source.name)
    return piece


readers.enter(
    Reader(
        "infiniband",
        "perfquery and ibqueryerrors",
        lambda _, head: (
            b"# Port counters: " in head or b"# Port extended counters: " in head or b"Errors for " in head[:512]
        ),
        _read_perfquery,
    ),
)


def _is_ibnetdiscover(_: str, head: bytes) -> bool:
    return ibnetdiscover.looks_like(head.decode("utf-8", errors="replace"))


def _read_ibnetdiscover(source: TraceSource) -> Piece:
    """Devices and cables.

    Raises:
        InputError: There is no cable.
    """
    found = ibnetdiscover.read(source.text(), source.name)
    if not found.ports:
        raise InputError("it has no cables", file=source.name)
    piece = Piece(source.name, cabling=found)
    if found.problems:
        piece.note(len(found.problems), f"lines of it could not be read: {found.problems[0].headline()}")
    return piece


readers.enter(
    Reader("ibnetdiscover", "ibnetdiscover: devices and cables", _is_ibnetdiscover, _read_ibnetdiscover),
)


def _take_sonic(text: str, piece: Piece) -> None:
    found = decoded_json(text, piece.source)
    tables = found if isinstance(found, dict) else {}
    names: dict[str, str] = {}
    for key in ("COUNTERS_PORT_NAME_MAP", "COUNTERS_QUEUE_NAME_MAP"):
        names |= {oid: name for name, oid in _values(tables.get(key)).items()}
    for key, table in tables.items():
        if key.startswith("COUNTERS:oid"):
            oid = key.removeprefix("COUNTERS:")
            for name, value in _values(table).items():
                if name.startswith("SAI_") and is_count(value):
                    piece.counts.append(Count("", names.get(oid, oid), name, float(value)))


def _values(table: Any) -> dict[str, str]:
    """A hash, as redis-dump writes it (`value`) or plainly."""
    plain = table.get("value", table) if isinstance(table, dict) else {}
    return {str(key): str(value) for key, value in plain.items()} if isinstance(plain, dict) else {}


add_text_reader(
    "sonic",
    "SONiC's COUNTERS_DB as JSON",
    lambda _, head: b"COUNTERS_PORT_NAME_MAP" in head or b"COUNTERS:oid" in head or b"SAI_PORT_STAT_" in head,
    _take_sonic,
    ("it has no port counters", "a dump of COUNTERS_DB"),
)


_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?(?:\s+#.*)?$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_KNOWN = ("DCGM_", "node_infiniband_", "node_ethtool_", "node_network_", "nccl_")
_EXPORTED_WHERE, _EXPORTED_PORT = (
    ("Hostname", "hostname", "instance", "node", "host"),
    ("device", "port", "gpu", "interface"),
)


def _is_exposition(_: str, head: bytes) -> bool:
    text = head.decode("utf-8", errors="replace")
    comments = "# TYPE " in text or "# HELP " in text
    return (comments and any(word in text for word in _KNOWN)) or any(
        line.startswith(_KNOWN) for line in text.splitlines()
    )


def _take_exposition(text: str, piece: Piece) -> None:
    broken = 0
    for line in text.splitlines():
        if not line.startswith(_KNOWN):
            continue
        found = _SAMPLE.match(line)
        if found is None or not math.isfinite(value := float_or_nan(found[3])):
            broken += 1
            continue
        labels = dict(_LABEL.findall(found[2] or ""))
        port = " ".join(
            f"{key} {labels[key]}" if key in ("gpu", "port") else labels[key] for key in _EXPORTED_PORT if key in labels
        )
        where = next((labels[key] for key in _EXPORTED_WHERE if labels.get(key)), "")
        piece.counts.append(Count(where, port, found[1], value))
    piece.note(broken, "samples are damaged or not numbers, and were left out")


add_text_reader(
    "exposition",
    "text of Prometheus exporters: DCGM, node_exporter, NCCL",
    _is_exposition,
    _take_exposition,
    ("it has no samples of a known exporter", ", ".join(_KNOWN)),
)


_WHERE = ("host.name", "service.instance.id", "device.name", "hostname")
_PORT = ("interface", "interface.name", "port", "object_name", "network.interface.name", "queue")


def _take_otlp(text: str, piece: Piece) -> None:
    last: dict[tuple[str, str, str], float] = {}
    for one in _documents(text, piece):
        for resource in _listed(one, "resourceMetrics", "resource_metrics"):
            about = _labels(resource.get("resource"))
            for scope in _listed(resource, "scopeMetrics", "scope_metrics"):
                for metric in _listed(scope, "metrics"):
                    _points(metric, about, last)
    piece.count_last(last)


def _documents(text: str, piece: Piece) -> Iterator[Any]:
    try:
        yield json.loads(text)
        return
    except (ValueError, RecursionError):
        broken = 0
    for line in filter(str.strip, text.splitlines()):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            broken += 1
    piece.note(broken, "lines are damaged and were left out")


def _listed(one: Any, *keys: str) -> list[dict[str, Any]]:
    found: Any = next((one[key] for key in keys if isinstance(one, dict) and key in one), [])
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _labels(one: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in _listed(one, "attributes"):
        value = each.get("value")
        if isinstance(value, dict) and value:
            found[str(each.get("key", ""))] = str(next(iter(value.values())))
    return found


def _points(metric: dict[str, Any], about: dict[str, str], last: dict[tuple[str, str, str], float]) -> None:
    for shape in ("sum", "gauge"):
        for point in _listed(metric.get(shape), "dataPoints", "data_points"):
            labels = {**about, **_labels(point)}
            where = next((labels[key] for key in _WHERE if key in labels), "")
            port = next((labels[key] for key in _PORT if key in labels), "")
            value = float_or_nan(point.get("asDouble", point.get("asInt", math.nan)))
            if math.isfinite(value):
                last[where, port, str(metric.get("name", ""))] = value


add_text_reader(
    "otlp",
    "OTLP metrics as JSON",
    lambda _, head: b'"resourceMetrics"' in head or b'"resource_metrics"' in head,
    _take_otlp,
    ("it has no numbers", None),
)
