"""Single values set over a scenario: `--set cluster.accelerators=2048`, and the variants of a comparison.

An override goes through the same reading, the same marks and the same validation as a line of the file, so a wrong
one is reported in the same words, with the command line as its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.topology.wiring import topologies
from railyard.kit.errors import InputError
from railyard.kit.schema.field import records
from railyard.kit.schema.yaml import Mark, Node, kind_of, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What the short names of the command line stand for.
SHORT: Mapping[str, str] = {
    "accelerators": "cluster.accelerators",
    "server": "cluster.server",
    "nics": "cluster.overrides.server.nics",
    "storage": "cluster.storage",
    "fabric": "cluster.back_end.fabric",
    "encryption": "cluster.back_end.encryption",
    "topology": "cluster.back_end.topology",
    "oversubscription": "cluster.back_end.topology.oversubscription",
    "link_rate": "cluster.back_end.link_rate",
    "qps": "cluster.back_end.fabric.qps",
    "model": "workload.training.model",
    "sequence": "workload.training.sequence",
    "global_batch": "workload.training.global_batch",
    "micro_batch": "workload.training.parallelism.micro_batch",
    "precision": "workload.training.precision",
    "tokens": "workload.training.tokens",
    "software": "workload.training.software",
    "recompute": "workload.training.parallelism.recompute",
    "communication": "workload.training.communication",
    "compression": "workload.training.communication.compression",
    "local_updates": "workload.training.communication.local_updates",
    "schedule": "workload.training.parallelism.schedule",
    "placement": "cluster.placement",
    "parallelism": "workload.training.parallelism",
    **{letter: f"workload.training.parallelism.{letter}" for letter in ("tp", "pp", "dp", "cp", "ep", "vp", "zero")},
    "router": "workload.serving.router",
    "rate": "workload.serving.requests.rate",
    "load": "workload.serving.requests.load",
    "pools": "workload.serving.pools",
    "transfer": "workload.serving.transfer",
    "cache": "workload.serving.cache",
    "slo": "workload.serving.slo",
    "requests": "workload.serving.requests",
    "capacity": "workload.serving.capacity",
    **{name: f"workload.serving.{name}" for name in ("decode_router", "kv_bits", "gateway", "outages")},
    "stages": "workload.pipeline.stages",
    "between": "workload.pipeline.between",
    "policy": "workload.operate.placement",
    "discipline": "workload.operate.queue.discipline",
    "backfill": "workload.operate.queue.backfill",
    **{name: f"workload.operate.recovery.{name}" for name in ("interval", "spares", "checkpoint")},
    "electricity": "economics.electricity",
    "pue": "economics.pue",
    "site": "economics.site",
}

#: Short names of serving that mean the same of a pipeline.
_OF_REQUESTS = frozenset({"rate", "load", "slo", "requests", "capacity"})

#: Dots in a key: no section lies deeper.
MOST_DEPTH = 40

#: Parts of `communication`, each a kind with its keys.
_KINDS = ("compression", "local_updates", "asynchronous", "scheduling", "sparse", "dispatch")

#: Sections that may be written as one word, and the key that the word is the value of.
TAGS: Mapping[str, str] = {
    "topology": "kind",
    "fabric": "name",
    "router": "kind",
    "engine": "name",
    "software": "profile",
    "failures": "profile",
    "scale_up": "fabric",
    "encryption": "protocol",
    **dict.fromkeys(_KINDS, "kind"),
}

#: Words that stand for a section, by the section, and the keys for which they stand: `tp` below `auto` fixes one size.
_WORDS: Mapping[str, tuple[str, tuple[str, ...]]] = {"parallelism": ("auto", ("auto",)), "links": ("parts", ())}


def full_path(key: str) -> tuple[str, ...]:
    """The dotted key as a path, with a short name at its beginning written out."""
    head, dot, rest = key.partition(".")
    return tuple(f"{SHORT.get(head, head)}{dot}{rest}".split("."))


def split(text: str, option: str) -> tuple[str, str]:
    """`key=value` as its two parts.

    Raises:
        InputError: There is no `=`, or nothing before it.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise InputError(f"`{option}`: expected key=value", found=text, file=f"{option} {text}")
    if key.count(".") > MOST_DEPTH:
        shown = f"{key[:40]}..."
        raise InputError(f"`{option}`: a key has at most {MOST_DEPTH} dots", found=shown, file=f"{option} {shown}")
    return key, value.strip()


def parse_set(text: str) -> tuple[str, Node]:
    """One `--set key=value`; values of a key of a plan's space also as `a,b,c`."""
    key, value = split(text, "--set")
    node = parse(value, f"--set {text}")
    if key.startswith("plan.space.") and node.items is None and not isinstance(node.value, dict):
        node = parse(f"[{value}]", f"--set {text}")
    return key, _unplaced(node, Mark(f"--set {text}"))


def parse_vary(text: str) -> tuple[str, list[Node]]:
    """One `--vary key=a,b,c`.

    Raises:
        InputError: The value is no list.
    """
    key, value = split(text, "--vary")
    mark = Mark(f"--vary {text}")
    inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    try:
        listed = parse(f"[{inner}]", mark.file)
    except InputError as error:
        raise InputError("`--vary`: expected key=a,b,c", found=text, file=mark.file) from error
    if not listed.value:
        raise InputError("`--vary` needs at least one value", found=text, file=mark.file)
    return key, [_unplaced(node, mark) for node in listed.value]


def put(root: Node, key: str, value: Node) -> Node:
    """A copy of the tree in which the dotted `key` has another value; missing sections are made.

    Raises:
        InputError: The key goes through something that is no section.
    """
    return _put(root, _of_workload(root, full_path(key), key, value.mark), value, ())


def _of_workload(root: Node, path: tuple[str, ...], key: str, mark: Mark) -> tuple[str, ...]:
    """Short names that mean a key of the training job mean that of the serving workload where there is one."""
    workload = root.value.get("workload") if isinstance(root.value, dict) else None
    kinds = workload.value if workload is not None and isinstance(workload.value, dict) else {}
    serves = "serving" in kinds
    if "pipeline" in kinds and path[:2] == ("workload", "serving") and key.partition(".")[0] in _OF_REQUESTS:
        return ("workload", "pipeline", *path[2:])
    shared = key.partition(".")[0] in {"model", "precision", "software"}
    if serves and shared:
        return ("workload", "serving", *path[2:])
    if path[0] == "workload" and len(path) > 2 and kinds and path[1] not in kinds:
        stands = "" if key.startswith("workload") else f"`{key}` stands for `{'.'.join(path)}`, and "
        degrees = "degrees of replicas are keys of their pool, such as `pools.both.tp`"
        problem = mark.problem(
            f"{stands}the workload is `{next(iter(kinds))}`, not `{path[1]}`",
            key=key,
            allowed=f"keys of `workload.{next(iter(kinds))}`",
            hint=degrees if path[1] == "training" and {"serving", "pipeline"} & set(kinds) else None,
        )
        raise InputError.many([problem])
    return path


def _put(node: Node, path: tuple[str, ...], value: Node, above: tuple[str, ...]) -> Node:
    if not path:
        return _with_kept(node, value, above[-1] if above else "")
    head, rest = path[0], path[1:]
    if isinstance(node.value, list):
        return _put_item(node, head, rest, value, above)
    section = _as_section(node, above, value.mark)
    children = dict(section.value)
    below = children.get(head, Node(None, value.mark))
    children[head] = _put(below, rest, value, (*above, head))
    keys = {**section.keys, head: value.mark if not rest or head not in section.keys else section.keys[head]}
    return Node(children, section.mark, keys, 1 + sum(child.size for child in children.values()))


def _with_kept(old: Node, value: Node, name: str) -> Node:
    """A section that a word takes the place of, with what stays: all keys of the same word, `CARRIED` of another.

    `--vary topology=leaf-spine,rail-optimized` compares both at the file's oversubscription.
    """
    tag = TAGS.get(name)
    if tag is None or not isinstance(old.value, dict) or not isinstance(value.value, str):
        return value
    before = old.value.get(tag)
    kept = {key: child for key, child in old.value.items() if key != tag}
    if before is None or before.value != value.value:
        kept = {key: child for key, child in kept.items() if key in _carried(name, value.value)}
    if not kept:
        return value
    marks = {tag: value.mark, **{key: old.keys.get(key, old.mark) for key in kept}}
    return Node({tag: value, **kept}, value.mark, marks, 1 + value.size + sum(child.size for child in kept.values()))


CARRIED = ("oversubscription", "uplink_rate")
"""Keys of leafs and spines: they mean the same in all families whose fields share their bounds."""


def _carried(name: str, word: str) -> frozenset[str]:
    if name != "topology" or word not in topologies.names():
        return frozenset()
    shared = {one.key: one.bounds for one in records(topologies.get("leaf-spine")).values() if one.key in CARRIED}
    return frozenset(one.key for one in records(topologies.get(word)).values() if shared.get(one.key, 0) is one.bounds)


def _put_item(node: Node, head: str, rest: tuple[str, ...], value: Node, above: tuple[str, ...]) -> Node:
    items = list(node.value)
    if not head.isdecimal() or int(head) >= len(items):
        raise InputError.many(
            [value.mark.problem(f"there is no item `{head}`", key=".".join(above), allowed=f"0 to {len(items) - 1}")]
        )
    items[int(head)] = _put(items[int(head)], rest, value, (*above, head))
    return Node(items, node.mark, size=1 + sum(item.size for item in items))


def _as_section(node: Node, path: tuple[str, ...], mark: Mark) -> Node:
    """The node as a mapping: nothing becomes an empty one, and `fabric: roce` becomes `fabric: {name: roce}`."""
    if isinstance(node.value, dict):
        return node
    word, keys = _WORDS.get(path[-1], (None, ())) if path else (None, ())
    if node.value is None or node.value == word:
        return Node({key: Node(True, mark) for key in keys}, mark, dict.fromkeys(keys, mark), 1 + len(keys))
    tag = TAGS.get(path[-1]) if path else None
    if tag is not None and isinstance(node.value, str):
        return Node({tag: node}, node.mark, {tag: node.mark}, 1 + node.size)
    key = ".".join(path)
    raise InputError.many([mark.problem(f"`{key}` is {kind_of(node.value)} and has no keys below it", key=key)])


def _unplaced(node: Node, mark: Mark) -> Node:
    """The same tree with the option as its place: a line and column of the command line would mean nothing."""
    if isinstance(node.value, dict):
        children = {key: _unplaced(child, mark) for key, child in node.value.items()}
        return Node(children, mark, dict.fromkeys(children, mark), node.size)
    if isinstance(node.value, list):
        return Node([_unplaced(child, mark) for child in node.value], mark, size=node.size)
    return Node(node.value, mark)
