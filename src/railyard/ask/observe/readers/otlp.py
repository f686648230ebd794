"""OTLP metrics as JSON, a document or one a line: sums and gauges of ports."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.reader import Count, Piece, Reader, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.observe.sources import Source

_WHERE = ("host.name", "service.instance.id", "device.name", "hostname")
_PORT = ("interface", "interface.name", "port", "object_name", "network.interface.name", "queue")


def recognises(_: str, head: bytes) -> bool:
    """By its keys."""
    return b'"resourceMetrics"' in head or b'"resource_metrics"' in head


def read(source: Source) -> Piece:
    """The last value of every number.

    Raises:
        InputError: There is none.
    """
    piece = Piece(source.name)
    last: dict[tuple[str, str, str], float] = {}
    for one in _documents(source, piece):
        for resource in _listed(one, "resourceMetrics", "resource_metrics"):
            about = _labels(resource.get("resource"))
            for scope in _listed(resource, "scopeMetrics", "scope_metrics"):
                for metric in _listed(scope, "metrics"):
                    _points(metric, about, last)
    piece.counts = [Count(where, port, name, value) for (where, port, name), value in last.items()]
    if not piece.counts:
        raise InputError("no number is in it", file=source.name)
    return piece


def _documents(source: Source, piece: Piece) -> Iterator[Any]:
    text = source.everything().decode("utf-8", errors="replace")
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
    if broken:
        piece.remarks.append(f"{broken} lines are damaged and were left out")


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
            try:
                value = float(point.get("asDouble", point.get("asInt", math.nan)))
            except (TypeError, ValueError, OverflowError):
                continue
            if math.isfinite(value):
                last[where, port, str(metric.get("name", ""))] = value


readers.add("otlp", Reader("otlp", "OTLP metrics as JSON", recognises, read))
