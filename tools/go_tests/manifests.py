"""Builders of Kueue's tests as the Kubernetes objects that they stand for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from go_tables import Chain, Name, Record

HOSTNAME = "kubernetes.io/hostname"
_NAMES = {
    "corev1.LabelHostname": HOSTNAME,
    "corev1.ResourceCPU": "cpu",
    "corev1.ResourceMemory": "memory",
    "corev1.ResourcePods": "pods",
    "kueue.ProvisioningRequestControllerName": "kueue.x-k8s.io/provisioning-request",
    "metav1.NamespaceDefault": "default",
    "podconstants.IsGroupWorkloadAnnotationKey": "kueue.x-k8s.io/is-group-workload",
    "podconstants.IsGroupWorkloadAnnotationValue": "true",
}
_PREFIXES = (
    "NodeSelectorOp",
    "TolerationOp",
    "TaintEffect",
    "Condition",
    "PreemptionPolicy",
    "BorrowWithinCohortPolicy",
    "CheckState",
    "DelayedTopologyRequestState",
    "AdmissionCheck",
    "Workload",
    "Pod",
    "Node",
)
_START = datetime(2026, 1, 1, tzinfo=UTC)
_UNREAD = {"Obj", "DeepCopy", "Clone", "JobUID", "SchedulingStatsEviction", "ResourceRequests", "ResourceVersion"}


def word(name: Name) -> str:
    """The value that a name of another package stands for."""
    if name.text in _NAMES:
        return _NAMES[name.text]
    last = name.text.rsplit(".", 1)[-1]
    if name.text.startswith("features."):
        return last
    return next((last[len(start) :] for start in _PREFIXES if last.startswith(start) and last != start), last)


def plain(value: Any) -> Any:
    """Values as JSON has them: builders become objects, fields of Go become keys of manifests."""
    if isinstance(value, Name):
        return word(value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, Record):
        return {_key(key): plain(one) for key, one in value.fields.items()}
    if isinstance(value, Chain):
        return _object(value)
    return value


def _key(key: Any) -> str:
    text = str(key)
    if "." in text or text.startswith('"'):
        return text.split('"')[1] if '"' in text else word(Name(text))
    return text[0].lower() + text[1:]


def _object(chain: Chain) -> Any:
    kind = chain.name.rsplit(".", 1)[-1]
    if kind in ("ClusterQueueReference", "ResourceFlavorReference", "AdmissionCheckReference", "MustParse"):
        return plain(chain.args[0])
    if kind == "Levels":
        return plain(chain.args[0])["spec"]["levels"]
    if kind in ("V1Beta2From", "NewRequestsFromMap"):
        return plain(chain.args[0])
    return _MAKERS[kind](chain)


def _calls(chain: Chain) -> list[tuple[str, list[Any]]]:
    return [(name, [plain(one) for one in args]) for name, args in chain.calls if name not in _UNREAD]


def _picked(chain: Chain, found: dict[str, Any]) -> Any:
    """What a field read off the built object gives, such as `topology.Name`."""
    last = chain.calls[-1][0] if chain.calls else ""
    if last == ".Name":
        return found["metadata"]["name"]
    return found


def _node(chain: Chain) -> Any:
    found: dict[str, Any] = {"metadata": {"name": plain(chain.args[0]), "labels": {}}, "status": {"allocatable": {}}}
    conditions = found["status"].setdefault("conditions", [])
    for name, args in _calls(chain):
        if name == "Label":
            found["metadata"]["labels"][args[0]] = args[1]
        elif name == "StatusAllocatable":
            found["status"]["allocatable"].update(args[0])
        elif name == "StatusConditions":
            conditions += args
        elif name in ("Ready", "NotReady"):
            conditions.append({"type": "Ready", "status": "True" if name == "Ready" else "False"})
        elif name == "Taints":
            found.setdefault("spec", {}).setdefault("taints", []).extend(args)
        elif name == "Unschedulable":
            found.setdefault("spec", {})["unschedulable"] = True
        else:
            raise KeyError(name)
    return {"kind": "Node", **found}


def _pod(chain: Chain) -> Any:
    requests: dict[str, str] = {}
    found: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": plain(chain.args[0]), "namespace": plain(chain.args[1])},
        "spec": {"containers": [{"resources": {"requests": requests}}]},
        "status": {},
    }
    for name, args in _calls(chain):
        if name == "Request":
            requests[args[0]] = args[1]
        elif name == "NodeName":
            found["spec"]["nodeName"] = args[0]
        elif name == "StatusPhase":
            found["status"]["phase"] = args[0]
        else:
            raise KeyError(name)
    return found


def _terms(chain: Chain) -> Any:
    found = []
    for name, args in _calls(chain):
        if name != "Term":
            raise KeyError(name)
        weight = [args.pop(0)] if isinstance(args[0], int) else []
        term = {"matchExpressions": [{"key": args[0], "operator": args[1], "values": args[2:]}]}
        found.append({"weight": weight[0], "preference": term} if weight else term)
    return found


def _topology(chain: Chain) -> Any:
    levels = [HOSTNAME] if "OneLevel" in chain.name else []
    for name, args in _calls(chain):
        if name == "Levels":
            levels = args
    found = {"kind": "Topology", "metadata": {"name": plain(chain.args[0])}, "spec": {"levels": levels}}
    return _picked(chain, found)


def _flavor(chain: Chain) -> Any:
    spec: dict[str, Any] = {}
    for name, args in _calls(chain):
        if name == "NodeLabel":
            spec.setdefault("nodeLabels", {})[args[0]] = args[1]
        elif name == "TopologyName":
            spec["topologyName"] = args[0]
        elif name in ("Taint", "Toleration"):
            spec.setdefault("nodeTaints" if name == "Taint" else "tolerations", []).append(args[0])
    found = {"kind": "ResourceFlavor", "metadata": {"name": plain(chain.args[0])}, "spec": spec}
    return _picked(chain, found)


def _quotas(chain: Chain) -> Any:
    resources: list[dict[str, str]] = []
    for name, args in _calls(chain):
        if name in ("Resource", "ResourceQuotaWrapper"):
            limits = zip(("nominalQuota", "borrowingLimit", "lendingLimit"), args[1:], strict=False)
            resources.append({"name": args[0], **{key: value for key, value in limits if value}})
        elif name in ("NominalQuota", "BorrowingLimit"):
            resources[-1][name[0].lower() + name[1:]] = args[0]
    return {"name": plain(chain.args[0]), "resources": resources}


def _queue(chain: Chain) -> Any:
    spec: dict[str, Any] = {}
    for name, args in _calls(chain):
        if name == "Cohort":
            spec["cohortName"] = args[0]
        elif name == "Preemption":
            spec["preemption"] = args[0]
        elif name == "ResourceGroup":
            covered = [one["name"] for one in args[0]["resources"]]
            spec.setdefault("resourceGroups", []).append({"coveredResources": covered, "flavors": args})
        elif name == "AdmissionChecks":
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": one} for one in args]}
        elif name == "AdmissionCheckStrategy":
            spec["admissionChecksStrategy"] = {"admissionChecks": args}
        elif not name.startswith("."):
            raise KeyError(name)
    kind = "Cohort" if chain.name.endswith("MakeCohort") else "ClusterQueue"
    return _picked(chain, {"kind": kind, "metadata": {"name": plain(chain.args[0])}, "spec": spec})


def _local_queue(chain: Chain) -> Any:
    to = next(args[0] for name, args in _calls(chain) if name == "ClusterQueue")
    metadata = {"name": plain(chain.args[0]), "namespace": plain(chain.args[1])}
    return {"kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": to}}


def _check(chain: Chain) -> Any:
    controller = next((args[0] for name, args in _calls(chain) if name == "ControllerName"), "")
    found = {
        "kind": "AdmissionCheck",
        "metadata": {"name": plain(chain.args[0])},
        "spec": {"controllerName": controller},
    }
    return _picked(chain, found)


_ASKED = {
    "RequiredTopologyRequest": "required",
    "PreferredTopologyRequest": "preferred",
    "SliceRequiredTopologyRequest": "podSetSliceRequiredTopology",
    "SliceSizeTopologyRequest": "podSetSliceSize",
}


def _pod_set(chain: Chain) -> Any:
    requests: dict[str, str] = {}
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": requests}}]}
    found: dict[str, Any] = {"name": plain(chain.args[0]), "count": chain.args[1], "template": {"spec": spec}}
    for name, args in _calls(chain):
        asked = found.setdefault("topologyRequest", {}) if "Topology" in name else {}
        if name in _ASKED:
            asked[_ASKED[name]] = args[0]
        elif name == "UnconstrainedTopologyRequest":
            asked["unconstrained"] = True
        elif name == "SliceRequiredTopologyConstraints":
            asked["podsetSliceRequiredTopologyConstraints"] = args
        elif name == "Request":
            requests[args[0]] = args[1]
        elif name == "SetMinimumCount":
            found["minCount"] = args[0]
        elif name == "Toleration":
            spec.setdefault("tolerations", []).append(args[0])
        elif name == "RequiredDuringSchedulingIgnoredDuringExecution":
            spec["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": args[0]}}
            }
        else:
            raise KeyError(name)
    return found


def _assignment(chain: Chain) -> Any:
    found: dict[str, Any] = {"name": plain(chain.args[0]), "count": 1}
    for name, args in _calls(chain):
        if name == "Assignment":
            found.setdefault("flavors", {})[args[0]] = args[1]
            found.setdefault("resourceUsage", {})[args[0]] = args[2]
        elif name in ("Count", "TopologyAssignment", "DelayedTopologyRequest"):
            found[name[0].lower() + name[1:]] = args[0]
        else:
            raise KeyError(name)
    return found


def _domains(chain: Chain) -> Any:
    """A topology assignment in the form that people read: levels, and (values, count) a domain."""
    domains = [args[0] for name, args in _calls(chain) if name == "Domain"]
    return {"levels": plain(chain.args[0]), "domains": domains}


def _admission(chain: Chain) -> Any:
    sets = [one for name, args in _calls(chain) if name == "PodSets" for one in args]
    return {"clusterQueue": plain(chain.args[0]), "podSetAssignments": sets}


def _time(seconds: int) -> str:
    return (_START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _workload(chain: Chain) -> Any:
    metadata: dict[str, Any] = {"name": plain(chain.args[0]), "namespace": plain(chain.args[1])}
    spec: dict[str, Any] = {"podSets": [_pod_set(Chain("MakePodSet", ["main", 1]))]}
    status: dict[str, Any] = {}
    for name, args in _calls(chain):
        _workload_call(name, args, (metadata, spec, status))
    return {"kind": "Workload", "metadata": metadata, "spec": spec, "status": status}


def _workload_call(name: str, args: list[Any], parts: tuple[dict[str, Any], ...]) -> None:
    metadata, spec, status = parts
    if name == "PodSets":
        spec["podSets"] = args
    elif name == "Queue":
        spec["queueName"] = args[0]
    elif name == "Priority":
        spec["priority"] = args[0]
    elif name == "Creation":
        metadata["creationTimestamp"] = _time(args[0])
    elif name == "UID":
        metadata["uid"] = args[0]
    elif name == "OwnerReference":
        metadata.setdefault("ownerReferences", []).append({"kind": args[0], "name": args[1], "uid": args[2]})
    elif name == "Annotations":
        metadata["annotations"] = args[0]
    elif name == "UnhealthyNodes":
        status["unhealthyNodes"] = [{"name": one} for one in args]
    elif name == "AdmissionCheck":
        status.setdefault("admissionChecks", []).append(args[0])
    else:
        _condition(name, args, status)


def _condition(name: str, args: list[Any], status: dict[str, Any]) -> None:
    if name in ("Admission", "ReserveQuotaAt"):
        status["admission"] = args[0]
    conditions: list[dict[str, Any]] = status.setdefault("conditions", [])
    if name == "ReserveQuotaAt":
        conditions.append({"type": "QuotaReserved", "status": "True", "lastTransitionTime": _time(args[1])})
    elif name == "AdmittedAt":
        conditions.append({"type": "Admitted", "status": str(args[0]), "lastTransitionTime": _time(args[1])})
    elif name == "Condition":
        kept = {key: args[0][key] for key in ("type", "status", "reason") if key in args[0]}
        conditions[:] = [one for one in conditions if one["type"] != kept["type"]] + [kept]
    elif name != "Admission":
        raise KeyError(name)


def _owner(chain: Chain) -> Any:
    return plain(chain.calls[-1][1][0])


def _event(chain: Chain) -> Any:
    return {"of": f"{plain(chain.args[0])}/{plain(chain.args[1])}", "reason": plain(chain.args[2])}


_MAKERS = {
    "MakeNode": _node,
    "MakePod": _pod,
    "MakePreferredSchedulingTerms": _terms,
    "MakeNodeSelectorTerms": _terms,
    "MakeTopology": _topology,
    "MakeDefaultOneLevelTopology": _topology,
    "MakeResourceFlavor": _flavor,
    "MakeFlavorQuotas": _quotas,
    "MakeClusterQueue": _queue,
    "MakeCohort": _queue,
    "MakeLocalQueue": _local_queue,
    "MakeAdmissionCheck": _check,
    "MakePodSet": _pod_set,
    "MakePodSetAssignment": _assignment,
    "MakeTopologyAssignment": _domains,
    "MakeTopologyDomainAssignment": lambda chain: {"values": plain(chain.args[0]), "count": plain(chain.args[1])},
    "MakeAdmission": _admission,
    "MakeWorkload": _workload,
    "MakeEventRecord": _event,
    "MakeNamespaceWrapper": lambda chain: plain(chain.args[0]),
    "WithKind": _owner,
    "NewNotFound": lambda _: "not found",
    "New": lambda _: "error",
    "IgnoreFields": lambda _: None,
}
