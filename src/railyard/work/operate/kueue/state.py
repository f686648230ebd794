"""Builds a Kueue cluster from manifests: `kubectl get -o yaml` of nodes, pods, and Kueue's objects."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.work.operate.kueue.manifests import (
    assignment,
    node,
    pod_set,
    requests,
    selection,
    taints,
    taken_by,
    text,
    tolerations,
)
from railyard.work.operate.kueue.objects import GATES, Gates, PodSet, Requests, amount, total
from railyard.work.operate.kueue.queues import (
    NEVER,
    Admission,
    ClusterQueue,
    FlavorSpec,
    Preemption,
    QueueCohort,
    Quota,
    ResourceGroup,
    Share,
    Workload,
)
from railyard.work.operate.kueue.snapshot import KueueCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from railyard.work.operate.kueue.manifests import Manifest


T = TypeVar("T")
_PROVISIONING = "kueue.x-k8s.io/provisioning-request"
_GROUP_OF_PODS = "kueue.x-k8s.io/is-group-workload"


def cluster(manifests: Iterable[Manifest]) -> KueueCluster:
    """The cluster that manifests describe; other kinds are ignored.

    Raises:
        InputError: A field of an object is missing or has the wrong type.
    """
    by_kind: dict[str, list[Manifest]] = defaultdict(list)
    for one in manifests:
        by_kind[str(one.get("kind"))].append(one)
    levels = dict(read_each(by_kind["Topology"], levels_of))
    queues = read_each(by_kind["ClusterQueue"], _queue)
    locals_ = dict(read_each(by_kind["LocalQueue"], _local_queue))
    configuration = (by_kind["Configuration"] or [{}])[0]
    transformed = _transformations(configuration)
    workloads = read_each(by_kind["Workload"], lambda one: _workload(one, locals_, transformed))
    known = {one.name for one in queues}
    for workload in workloads:
        if workload is not None and workload.queue not in known:
            raise InputError(
                f"Workload {workload.key} is for a queue that is not there",
                key=workload.key,
                found=workload.queue or "a LocalQueue that is not there",
                allowed=", ".join(sorted(known)) or "no ClusterQueue was given",
            )
    return KueueCluster(
        tuple(read_each(by_kind["Node"], node)),
        {one.name: one for one in read_each(by_kind["ResourceFlavor"], lambda one: _flavor(one, levels))},
        {one.name: one for one in queues},
        tuple(read_each(by_kind["Cohort"], _cohort)),
        tuple(one for one in workloads if one is not None),
        taken_by(by_kind["Pod"]),
        frozenset(
            one["metadata"]["name"]
            for one in by_kind["AdmissionCheck"]
            if one["spec"].get("controllerName") == _PROVISIONING
        ),
        gates(configuration.get("featureGates") or {}),
    )


def gates(switched: dict[str, bool]) -> Gates:
    """Gates with some of them switched; those that have no effect here are ignored."""
    return Gates(**{GATES[name]: bool(on) for name, on in switched.items() if name in GATES})


def read_each(manifests: list[Manifest], reader: Callable[[Manifest], T]) -> list[T]:
    """Applies a reader to objects.

    Raises:
        InputError: An object is invalid; names it.
    """
    found = []
    for manifest in manifests:
        try:
            found.append(reader(manifest))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            metadata = manifest.get("metadata")
            name = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
            lacks = f"has no {error}" if isinstance(error, KeyError) else f"cannot be read: {error}"
            raise InputError(f"{manifest.get('kind')} {name} {lacks}", key=name) from error
    return found


def levels_of(manifest: Manifest) -> tuple[str, tuple[str, ...]]:
    """Name and labels of a Topology."""
    return text(manifest["metadata"], "name"), tuple(text(one, "nodeLabel") for one in manifest["spec"]["levels"])


def _flavor(manifest: Manifest, levels: dict[str, tuple[str, ...]]) -> FlavorSpec:
    spec = manifest.get("spec") or {}
    topology = text(spec, "topologyName", "")
    if topology and topology not in levels:
        raise InputError(
            f"ResourceFlavor {manifest['metadata']['name']} names a Topology that is not there",
            found=topology,
            allowed=", ".join(sorted(levels)) or "none was given",
        )
    return FlavorSpec(
        text(manifest["metadata"], "name"),
        dict(spec.get("nodeLabels") or {}),
        taints(spec.get("nodeTaints")),
        tolerations(spec.get("tolerations")),
        levels.get(topology or "", ()),
    )


def _groups(spec: Manifest) -> tuple[ResourceGroup, ...]:
    return tuple(
        ResourceGroup(
            tuple(one["coveredResources"]),
            tuple((text(flavor, "name"), _limits(flavor["resources"])) for flavor in one["flavors"]),
        )
        for one in spec.get("resourceGroups") or ()
    )


def _nominal(resource: Manifest) -> Any:
    """The quota, which the API requires too: a misspelled key must not read as no quota."""
    if "nominalQuota" not in resource:
        known = ("nominalQuota", "borrowingLimit", "lendingLimit")
        odd = [key for key in resource if key not in {"name", *known}]
        hint = did_you_mean(odd[0], known) if odd else None
        raise InputError(
            "a resource has no `nominalQuota`", key=str(resource.get("name")), found=odd or None, hint=hint
        )
    return resource["nominalQuota"]


def _limits(resources: list[Manifest]) -> dict[str, Quota]:
    def limit(one: Manifest, key: str) -> int | None:
        return None if one.get(key) is None else amount(one["name"], one[key])

    return {
        text(one, "name"): Quota(
            amount(one["name"], _nominal(one)), limit(one, "borrowingLimit"), limit(one, "lendingLimit")
        )
        for one in resources
    }


def _queue(manifest: Manifest) -> ClusterQueue:
    spec = manifest["spec"]
    fungible, checks = spec.get("flavorFungibility") or {}, spec.get("admissionChecksStrategy") or {}
    return ClusterQueue(
        text(manifest["metadata"], "name"),
        text(spec, "cohortName", "") or text(spec, "cohort", ""),
        _groups(spec),
        _preemption(spec.get("preemption") or {}),
        fungible.get("whenCanPreempt", "TryNextFlavor") == "TryNextFlavor",
        fungible.get("whenCanBorrow", "") == "TryNextFlavor",
        fungible.get("preference") == "PreemptionOverBorrowing",
        tuple((text(one, "name"), tuple(one.get("onFlavors") or ())) for one in checks.get("admissionChecks") or ()),
        spec.get("queueingStrategy") == "StrictFIFO",
        spec.get("stopPolicy") in ("Hold", "HoldAndDrain"),
    )


def _preemption(spec: Manifest) -> Preemption:
    borrowing = spec.get("borrowWithinCohort") or {}
    return Preemption(
        spec.get("withinClusterQueue") or NEVER,
        spec.get("reclaimWithinCohort") or NEVER,
        borrowing.get("policy") or NEVER,
        borrowing.get("maxPriorityThreshold"),
    )


def _cohort(manifest: Manifest) -> QueueCohort:
    spec = manifest.get("spec") or {}
    return QueueCohort(text(manifest["metadata"], "name"), text(spec, "parentName", ""), _groups(spec))


def _local_queue(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    key = f"{text(metadata, 'namespace', 'default')}/{text(metadata, 'name')}"
    return key, text(manifest["spec"], "clusterQueue")


Transformations = dict[str, tuple[bool, Requests]]
"""By resource: whether it is kept, and what one unit of it maps to; CPU in millicores."""


def _transformations(configuration: Manifest) -> Transformations:
    listed = (configuration.get("resources") or {}).get("transformations") or ()
    return {one["input"]: (one.get("strategy", "Retain") == "Retain", requests(one.get("outputs"))) for one in listed}


def _transformed(asked: Requests, transformations: Transformations) -> Requests:
    found: Requests = {}
    for resource, value in asked.items():
        kept, outputs = transformations.get(resource, (True, {}))
        per = 1000 if resource == "cpu" else 1
        out = {key: -(-each * value // per) for key, each in outputs.items()}
        found = total(found, {resource: value} if kept else {}, out)
    return found


def _workload(manifest: Manifest, queues: dict[str, str], transformations: Transformations) -> Workload | None:
    """A workload; None: it has ended."""
    metadata, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    true = {kind for kind, one in conditions.items() if one["status"] == "True"}
    if "Finished" in true:
        return None
    namespace = text(metadata, "namespace", "default")
    got = admission(status.get("admission")) if "QuotaReserved" in true else None
    sets = tuple(_with_updates(pod_set(one), status) for one in spec["podSets"])
    owners = list(metadata.get("ownerReferences") or [])
    grouped = (metadata.get("annotations") or {}).get(_GROUP_OF_PODS) == "true"
    return Workload(
        f"{namespace}/{text(metadata, 'name')}",
        got.queue if got else queues.get(f"{namespace}/{spec.get('queueName')}", ""),
        sets,
        tuple(_transformed(one.requests, transformations) for one in sets),
        int(spec.get("priority") or 0),
        str(metadata.get("creationTimestamp") or ""),
        str(metadata.get("uid") or ""),
        got,
        "Admitted" in true,
        "Evicted" in true,
        str(conditions.get("QuotaReserved", {}).get("lastTransitionTime") or ""),
        spec.get("active", True) is not False,
        tuple(one["name"] for one in status.get("unhealthyNodes") or ()),
        {one["name"]: one["state"] for one in status.get("admissionChecks") or ()},
        len(owners) == 1 and owners[0]["kind"] == "Pod" and not grouped,
        {one["name"]: int(one["count"]) for one in status.get("reclaimablePods") or ()},
    )


def _with_updates(pods: PodSet, status: Manifest) -> PodSet:
    """Adds the selectors and tolerations of ready admission checks."""
    for check in status.get("admissionChecks") or ():
        for one in (check.get("podSetUpdates") or ()) if check["state"] == "Ready" else ():
            if one["name"] == pods.name:
                more: Any = selection(one)
                labels = {**pods.selection.labels, **more.labels}
                borne = (*pods.selection.tolerations, *more.tolerations)
                pods = replace(pods, selection=replace(pods.selection, labels=labels, tolerations=borne))
    return pods


def admission(manifest: Manifest | None) -> Admission | None:
    """The admission in a workload's status; None: none."""
    if not manifest:
        return None
    return Admission(
        text(manifest, "clusterQueue"),
        tuple(
            Share(
                text(one, "name"),
                int(one.get("count") or 0),
                dict(one.get("flavors") or {}),
                requests(one.get("resourceUsage")),
                assignment(one.get("topologyAssignment")),
                one.get("delayedTopologyRequest") or "",
            )
            for one in manifest["podSetAssignments"]
        ),
    )


def is_manifests(path: Path) -> bool:
    """Whether a file contains objects of Kueue."""
    text = read_text(path, errors="replace")
    return "kueue.x-k8s.io/" in text and "kind" in text


def read_manifests(path: Path) -> list[dict[str, Any]]:
    """The objects of a file.

    Raises:
        InputError: The file is not YAML, or a document in it is not an object.
    """
    return parse_manifests(read_text(path), path)


def parse_manifests(text: str, path: str | Path) -> list[dict[str, Any]]:
    """The objects of a text, with lists flattened.

    Raises:
        InputError: The text is not YAML, or a document in it is not an object.
    """
    try:
        documents = [one for one in yaml.load_all(text, Loader=_LOADER) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        raise InputError(
            "this is not YAML", file=path, line=line, found=str(getattr(error, "problem", error))
        ) from error
    found: list[dict[str, Any]] = []
    for one in documents:
        items = one.get("items", [one]) if isinstance(one, dict) else [one]
        found += items if isinstance(items, list) else [items]
    for item in found:
        if not isinstance(item, dict) or "kind" not in item:
            raise InputError("an object has a `kind`", file=path, found=repr(item)[:60])
        group, _, version = str(item.get("apiVersion", "")).rpartition("/")
        if version not in _VERSIONS.get(group, (version,)):
            raise InputError(
                f"{item['kind']} is of a version that is not read",
                file=path,
                key="apiVersion",
                found=f"{group}/{version}",
                allowed=[f"{group}/{one}" for one in _VERSIONS[group]],
            )
    return found


_VERSIONS = {"kueue.x-k8s.io": ("v1alpha1", "v1beta1", "v1beta2"), "topology.volcano.sh": ("v1alpha1",)}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_cluster(paths: Iterable[Path]) -> KueueCluster:
    """The cluster that files describe together.

    Raises:
        InputError: Names the file and the invalid object.
    """
    paths = list(dict.fromkeys(paths))
    manifests = [one for path in paths for one in read_manifests(path)]
    try:
        return cluster(manifests)
    except InputError as error:
        raise error.located(file=paths[0]) from None
