"""Builds what a scenario names: catalog, cluster, training job; adds lines to the errors of other rooms."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import railyard.catalog as catalogs
import railyard.cluster as clusters
from railyard.kit.errors import InputError
from railyard.model.machine import Machine
from railyard.work.scenario.conditions import communication_of
from railyard.work.scenario.load import blaming, dump
from railyard.work.scenario.section import LIKE, fields_given, model_file
from railyard.work.training import loading, pace, profiles
from railyard.work.training.layout import candidates, check, check_fit, domain_use
from railyard.work.training.likely import Likely, likely, open_keys
from railyard.work.training.lora import check_lora
from railyard.work.training.offload import Offload
from railyard.work.training.spec import Checkpoint, DataLoading, Layout, Lora, SoftwareProfile, Training
from railyard.work.training.sync.check import check_communication, check_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.catalog import Catalog, Model
    from railyard.cluster import Cluster
    from railyard.cluster.spec import ClusterSpec
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.work.scenario.cluster import ClusterSection
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.study.provenance import Memo
    from railyard.work.training.section import TrainingSection


MOST_QUEUE_PAIRS = 4096
MOST_PATHS = 1 << 24
"""Queue pairs of all accelerators together; each is a path of several links."""

MOST_TASKS = 50_000_000
"""Limit for a machine of 16 GB, at about 100 bytes per task for graph, entities and timeline."""

_COUNTS = ("qps", "flowlets")


def check_cluster(spec: ClusterSpec) -> None:
    """Rejects fabrics with more queue pairs than can be simulated.

    Raises:
        InputError: Keys are relative to the cluster.
    """
    networks = {"back_end": spec.back_end, "front_end": spec.front_end}
    if spec.storage is not None and not isinstance(spec.storage.network, str):
        networks["storage.network"] = spec.storage.network
    most = min(MOST_QUEUE_PAIRS, MOST_PATHS // spec.accelerators)
    for name, network in networks.items():
        overrides = {} if network is None else network.fabric.overrides
        for key in _COUNTS:
            value = int(overrides.get(key, 1))
            if value > most:
                raise InputError(
                    "this is more than can be simulated",
                    key=f"{name}.fabric.{key}",
                    found=f"{value:,}",
                    allowed=f"at most {most:,}",
                )


def check_step(training: Training) -> None:
    """Rejects steps whose task graph would not fit in memory, before it is built.

    Raises:
        InputError: The key is relative to the training section.
    """
    layout, tasks = training.layout, about_tasks(training)
    if tasks > MOST_TASKS:
        layered = f" in {training.model.layers} layers each, as zero 3 gathers them," if layout.zero == 3 else ""
        raise InputError(
            f"a step has about {tasks:,} tasks: {layout.micro_batches:,} micro-batches{layered} on each of"
            f" {layout.ranks:,} ranks",
            key="global_batch",
            found=f"{layout.global_batch:,}",
            allowed=f"what makes at most {MOST_TASKS:,} tasks",
            hint="take a larger micro_batch or a smaller global_batch; a step of fewer micro-batches is much the same",
        )


def about_tasks(training: Training) -> int:
    """Approximate number of tasks of one step, over all ranks: each pass of a virtual stage, and its sends.

    Under zero 3 a pass is cut at every layer, because each layer's weights are gathered before it.
    """
    layout = training.layout
    cuts = max(training.model.layers // layout.pp, 1) if layout.zero == 3 else layout.vp
    return 4 * layout.micro_batches * cuts * layout.ranks


_TRAINING = ("workload", "training")
_SEARCHED = frozenset(
    {"tp", "pp", "dp", "cp", "ep", "vp", "zero", "micro_batch", "schedule", "recompute", "recompute_modules"}
)
"""Keys that the search over layouts decides if the scenario does not."""


def catalog_of(draft: Draft) -> Catalog:
    """The catalog with the scenario's own entries.

    Raises:
        InputError: The scenario's file cannot be read or is invalid.
    """
    extra = draft.scenario.catalog
    if extra is None:
        return catalogs.load()
    with blaming(draft, "catalog"):
        path = draft.folder / extra
        if not path.is_file():
            raise InputError("there is no such catalogue file", found=extra)
        return catalogs.load(path)


def cluster_of(draft: Draft, catalog: Catalog, section: ClusterSection | None = None) -> Cluster:
    """The cluster.

    Raises:
        InputError: The cluster cannot be built.
    """
    written: ClusterSection | None = section or draft.scenario.cluster
    if written is None:
        error = InputError(f"this needs a cluster; `{draft.kind}` brings its own machines", found=draft.kind)
        raise draft.blame(error, "workload")
    with blaming(draft, "cluster"):
        spec = written.spec()
        check_cluster(spec)
        return clusters.build(spec, catalog, written.arrangement())


def shared_catalog(draft: Draft, memo: Memo) -> Catalog:
    """The catalog, once for all variants that have the same.

    Raises:
        InputError: The scenario's file cannot be read or is invalid.
    """
    return memo.get("catalog", draft.scenario.catalog, partial(catalog_of, draft))


def shared_cluster(draft: Draft, catalog: Catalog, memo: Memo, section: ClusterSection | None = None) -> Cluster:
    """The cluster, or that of a section in its place, once for all variants that have the same.

    Raises:
        InputError: The cluster cannot be built.
    """
    key = [draft.scenario.catalog, dump(section or draft.scenario.cluster)]
    return memo.get("cluster", key, partial(cluster_of, draft, catalog, section))


def economics_of(draft: Draft, catalog: Catalog) -> Assumptions:
    """Prices and rates.

    Raises:
        InputError: The catalog lacks one.
    """
    from railyard.measure.cost.assumptions import Assumptions

    with blaming(draft, "economics"):
        return Assumptions.from_catalog(catalog, draft.scenario.economics.given())


def domain_use_of(cluster: Cluster, layout: Layout) -> int | None:
    """Ranks to use per scale-up domain; None if the cluster is right as it is.

    Groups that should stay inside a domain must not span two: 72 ranks fit one group of 64, not 1 1/8.
    """
    domain, server = cluster.scale_up_domain, cluster.server
    several = server.scale_up_domain > server.accelerators and cluster.scale_up.kind == "switched"
    if not several or cluster.ranks <= domain:
        return None
    use = domain_use(layout, domain, server.accelerators)
    return None if use == domain else use


def placed(draft: Draft, cluster: Cluster, catalog: Catalog, use: int) -> Cluster:
    """The cluster with this many ranks in each scale-up domain.

    Raises:
        InputError: The cluster cannot be built.
    """
    with blaming(draft, "cluster"):
        return clusters.build(dataclasses.replace(cluster.spec, ranks_per_domain=use), catalog, cluster.placement)


def model_of(folder: Path, name: str, catalog: Catalog) -> Model:
    """A model, from the catalog or from a Hugging Face `config.json`.

    Raises:
        InputError: The model is unknown or cannot be read.
    """
    path = model_file(folder, name)
    if path is None:
        return catalog.model(name)
    like = LIKE.split(name)[1:]
    if not path.is_file():
        raise InputError("there is no such file", found=path)
    from railyard.catalog.hugging_face import hf_config

    return hf_config.read(path, like=like[0] if like else "")


def training_of(
    draft: Draft, cluster: Cluster, model: Model, choose: Callable[[Sequence[Training]], Training]
) -> Training:
    """The training job, with the given layout or the best that fits.

    Args:
        draft: The scenario.
        cluster: The cluster.
        model: The model to train.
        choose: Chooses the fastest of the jobs with every layout that fits.

    Raises:
        InputError: The layout does not divide, does not fit, or names something unknown.
    """
    section = draft.scenario.training
    with blaming(draft, *_TRAINING):
        job = Training(
            model=model,
            layout=Layout(global_batch=section.global_batch),
            seq_len=section.sequence,
            software=_software(section, cluster, draft.folder),
            precision=section.precision,
            tokens=section.tokens,
            routing_skew=section.routing_skew,
            routing_own=section.routing_own,
            data=_record(section.data, DataLoading),
            checkpoint=_record(section.checkpoint, Checkpoint),
            communication=communication_of(section.communication),
            offload=_record(section.offload, Offload),
            lora=_record(section.lora, Lora),
        )
        check_lora(job)
        _check_offload(job, cluster)
        if job.communication is not None:
            check_values(job.communication)
        if job.data is not None:
            with blaming(draft, *_TRAINING, "data"):
                loading.check(job.data, loading.format_of(job.data))
                loading.check_cache(job.data, cluster.server)
        given = given_keys(section)
        if isinstance(section.parallelism, str) or section.parallelism.auto:
            return _best(job, cluster, given, choose)
        job = job.replace(layout=written_layout(given, section.global_batch, cluster.ranks))
        check(job.model, job.layout, job.seq_len, cluster.ranks)
        return _fitting(completed(section, job, cluster).training, cluster)


def completed(section: TrainingSection, job: Training, cluster: Cluster) -> Likely:
    """A job with likely values for what a given layout leaves open, and their possible error.

    Uses the cluster's accelerators and NICs, but not the fabric between them.
    """
    if isinstance(section.parallelism, str) or section.parallelism.auto:
        return Likely(job)
    left_out, layout = open_keys(given_keys(section), job.layout.pp), job.layout
    if "vp" in left_out:
        layout = layout.replace(vp=1, schedule="1f1b")
    nics_bps = cluster.nic.rate_bps * cluster.server.nics_per_accelerator
    domain = cluster.scale_up_domain
    if cluster.spec.ranks_per_domain is None:
        domain = domain_use_of(cluster, layout) or domain
    machine = Machine.of_device(cluster.accelerator, nics_bps, domain)
    return likely(job.replace(layout=layout), machine, left_out)


def _check_offload(job: Training, cluster: Cluster) -> None:
    if job.offload is None:
        return
    if cluster.memory_pool is None:
        raise InputError(
            "`offload` needs a memory pool in the cluster",
            key="offload",
            hint="write for example `memory_pool: {network: host}` under `cluster`",
        )


def given_keys(section: TrainingSection) -> dict[str, Any]:
    """The given keys of the layout, under the names of `Layout`."""
    if isinstance(section.parallelism, str):
        return {}
    return fields_given(section.parallelism, Layout)


def written_layout(given: dict[str, Any], global_batch: int, ranks: int) -> Layout:
    """The given layout; `dp` is the rest of the ranks, and virtual stages imply an interleaved schedule.

    Args:
        given: Values by the names of `Layout`.
        global_batch: Sequences of a step.
        ranks: Ranks of the cluster.

    Raises:
        InputError: The degrees do not divide the ranks; keys are relative to the training section.
    """
    implied: dict[str, Any] = {"schedule": "interleaved"} if given.get("vp", 1) > 1 else {}
    inner = given.get("tp", 1) * given.get("cp", 1) * given.get("pp", 1)
    if "dp" not in given:
        if ranks % inner:
            raise InputError(
                f"tp x cp x pp = {inner} does not divide the {ranks} accelerators",
                key="parallelism",
                found=inner,
                allowed=f"a divisor of {ranks}",
            )
        implied["dp"] = ranks // inner
    return Layout(global_batch=global_batch, **{**implied, **given})


def _software(section: TrainingSection, cluster: Cluster, folder: Path) -> SoftwareProfile:
    written = section.software
    device = cluster.accelerator
    base = profiles.default(device) if written.profile is None else profiles.profile(written.profile, device)
    if written.constants is not None:
        file = folder / written.constants
        if not file.is_file():
            raise InputError("there is no such file of own runs", key="software.constants", found=written.constants)
        base = pace.over(base, pace.read_runs(file))
    return dataclasses.replace(base, **fields_given(written, SoftwareProfile))


def _record(section: Any, record: type[Any]) -> Any:
    return None if section is None else record(**fields_given(section, record))


def _best(
    job: Training, cluster: Cluster, given: dict[str, Any], choose: Callable[[Sequence[Training]], Training]
) -> Training:
    """The job with the fastest layout that fits; given sizes stay, and further keys are set."""
    fixed = {name: value for name, value in given.items() if name in _SEARCHED}
    further = {name: value for name, value in given.items() if name not in _SEARCHED or name == "recompute_modules"}
    found = candidates(job, Machine.of(cluster), cluster.ranks, fixed=fixed)
    asked = [one.replace(layout=one.layout.replace(**further)) for one in found] if further else found
    whole = [one for one in asked if not one.layout.replicas % one.layout.shard_ranks]
    return _fitting(choose(whole) if whole else asked[0], cluster)


def _fitting(job: Training, cluster: Cluster) -> Training:
    replicas = job.layout.replicas
    if replicas % job.layout.shard_ranks:
        raise InputError(
            f"{job.layout.fsdp_shard} does not divide the {replicas} replicas",
            key="parallelism.fsdp_shard",
            found=job.layout.fsdp_shard,
            allowed=f"a divisor of {replicas}",
        )
    check(job.model, job.layout, job.seq_len, cluster.ranks)
    check_step(job)
    check_communication(job)
    check_fit(job, cluster.accelerator)
    return job


def need_storage(draft: Draft) -> None:
    """Rejects jobs that use a storage system which the cluster does not have.

    Raises:
        InputError: The cluster has no storage system.
    """
    training = draft.scenario.training
    for key, wanted in (("data", training.data), ("checkpoint", training.checkpoint)):
        if wanted is not None and draft.scenario.cluster.storage is None:
            error = InputError(
                f"`{key}` needs a storage system in the cluster",
                key=key,
                hint="write for example `storage: {name: nvme-file-server, servers: 8}` under `cluster`",
            )
            raise draft.blame(error, *_TRAINING)


def engine_name(variant: Variant, asked: str | None) -> str:
    """The engine of a run: from the command line, otherwise from the scenario.

    Raises:
        InputError: The engine is unknown, or one is requested although variants differ in theirs.
    """
    from railyard.engine import get

    draft = variant.draft
    if asked is not None and "engine" in variant.settings:
        hint = "leave `--engine` out, or drop the comparison with `--set compare={}`"
        raise InputError("the scenario compares engines", key="engine", found=f"--engine {asked}", hint=hint)
    name = asked or draft.scenario.engine
    try:
        get(name)
    except InputError as error:
        raise error.located(file=f"--engine {name}") if asked else draft.blame(error) from None
    return name
