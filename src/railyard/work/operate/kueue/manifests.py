"""Reads manifests of Kubernetes and Kueue, as `kubectl get -o yaml` prints them, into objects."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.work.operate.kueue.objects import (
    Assignment,
    KubernetesNode,
    NodeSelection,
    PodSet,
    Requests,
    Toleration,
    TopologyRequest,
    amount,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Manifest = dict[str, Any]
_ENDED = {"Succeeded", "Failed"}


def text(manifest: Manifest, key: str, default: str | None = None) -> str:
    """A string field of an object; required if there is no default.

    Raises:
        KeyError: The field is missing.
        TypeError: The field is not a string.
    """
    found = manifest[key] if default is None else manifest.get(key)
    if found is None or found == "":
        return default or ""
    if not isinstance(found, str):
        raise TypeError(f"`{key}` is a word, not {found!r}")
    return found


def requests(amounts: Mapping[str, Any] | None) -> Requests:
    """Amounts by resource of `resources.requests`, `allocatable` or a usage."""
    return {key: amount(key, value) for key, value in (amounts or {}).items()}


def node(manifest: Manifest) -> KubernetesNode:
    """A node; without conditions it counts as ready."""
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    ready = [one["status"] == "True" for one in status.get("conditions") or () if one["type"] == "Ready"]
    metadata = manifest["metadata"]
    return KubernetesNode(
        text(metadata, "name"),
        {key: str(value) for key, value in (metadata.get("labels") or {}).items()},
        taints(spec.get("taints")),
        requests(status.get("allocatable")),
        all(ready) and not spec.get("unschedulable"),
    )


def taints(manifests: Iterable[Manifest] | None) -> tuple[tuple[str, str, str], ...]:
    """Taints as (key, value, effect)."""
    return tuple((text(one, "key"), text(one, "value", ""), text(one, "effect")) for one in manifests or ())


def taken_by(pods: Iterable[Manifest]) -> dict[str, Requests]:
    """Usage of each node by pods that run or are about to, including one pod slot each."""
    found: dict[str, Requests] = defaultdict(dict)
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name and (pod.get("status") or {}).get("phase") not in _ENDED:
            found[name] = total(found[name], pod_requests(pod["spec"]), {"pods": 1})
    return dict(found)


def pod_requests(spec: Manifest) -> Requests:
    """A pod's request: its containers, or its largest init container if that is more, plus its overhead."""
    running = total(*(_container(one) for one in spec.get("containers") or ()))
    largest: Requests = {}
    beside: Requests = {}
    for one in spec.get("initContainers") or ():
        now = total(beside, _container(one))
        if one.get("restartPolicy") == "Always":
            beside = now
        largest = {key: max(largest.get(key, 0), now.get(key, 0)) for key in {*largest, *now}}
    running = total(running, beside)
    most = {key: max(running.get(key, 0), largest.get(key, 0)) for key in {**running, **largest}}
    return total(most, requests(spec.get("overhead")))


def _container(one: Manifest) -> Requests:
    resources = one.get("resources") or {}
    return {**requests(resources.get("limits")), **requests(resources.get("requests"))}


def _pods(manifest: Manifest) -> int:
    found = manifest.get("count", 1)
    if not isinstance(found, int) or found < 0:
        raise InputError("a pod set has a number of pods", key="count", found=found, allowed="0 or more")
    return found


def pod_set(manifest: Manifest) -> PodSet:
    """A pod set of a workload."""
    spec = (manifest.get("template") or {}).get("spec") or {}
    return PodSet(
        text(manifest, "name", "main"),
        _pods(manifest),
        pod_requests(spec),
        topology_request(manifest.get("topologyRequest")),
        selection(spec),
        int(manifest.get("minCount") or 0),
    )


def topology_request(manifest: Manifest | None) -> TopologyRequest | None:
    """A pod set's topology request; None: none."""
    if manifest is None:
        return None
    layers = manifest.get("podsetSliceRequiredTopologyConstraints") or ()
    if not layers and manifest.get("podSetSliceRequiredTopology"):
        layers = [{"topology": manifest["podSetSliceRequiredTopology"], "size": manifest.get("podSetSliceSize") or 0}]
    return TopologyRequest(
        text(manifest, "required", ""),
        text(manifest, "preferred", ""),
        bool(manifest.get("unconstrained")),
        tuple((text(one, "topology"), int(one["size"])) for one in layers),
        text(manifest, "podSetGroupName", ""),
    )


def selection(spec: Manifest) -> NodeSelection:
    """Node constraints of the pods of a template."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    needed = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    liked = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return NodeSelection(
        dict(spec.get("nodeSelector") or {}),
        tuple(needed.get("nodeSelectorTerms") or ()),
        tuple((int(one["weight"]), one["preference"]) for one in liked),
        tolerations(spec.get("tolerations")),
    )


def tolerations(manifests: Iterable[Manifest] | None) -> tuple[Toleration, ...]:
    """Taints that are tolerated."""
    return tuple(
        Toleration(
            text(one, "key", ""), text(one, "operator", "Equal"), text(one, "value", ""), text(one, "effect", "")
        )
        for one in manifests or ()
    )


def assignment(manifest: Manifest | None) -> Assignment | None:
    """A topology assignment, domain by domain or in the slices of v1beta2; None: there is none."""
    if not manifest:
        return None
    levels = tuple(manifest["levels"])
    domains = [(tuple(one["values"]), int(one["count"])) for one in manifest.get("domains") or ()]
    for part in manifest.get("slices") or ():
        count = int(part["domainCount"])
        names = [_values(level, count) for level in part["valuesPerLevel"]]
        pods = _each(part["podCounts"], count)
        domains += [(values, int(each)) for values, each in zip(zip(*names, strict=True), pods, strict=True)]
    return Assignment(levels, tuple(domains))


def _values(level: Manifest, count: int) -> list[str]:
    if level.get("universal") is not None:
        return [str(level["universal"])] * count
    found = level["individual"]
    return [f"{found.get('prefix') or ''}{root}{found.get('suffix') or ''}" for root in found["roots"]]


def _each(counts: Manifest, count: int) -> list[int]:
    universal = counts.get("universal")
    return [int(universal)] * count if universal is not None else list(counts["individual"])
