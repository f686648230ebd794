"""What a scenario fixes about collectives: one record that all files are written from, and compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.policy import KINDS
from railyard.collective.synthesis import searched, written
from railyard.collective.synthesis.msccl import msccl_xml
from railyard.collective.synthesis.msccl_run import parsed
from railyard.collective.synthesis.mscclpp import mscclpp_json
from railyard.collective.tuner.settings import Fixed
from railyard.kit.files import read_text
from railyard.work.scenario.load import blaming
from railyard.work.training.conditions import keeps_of, policy_of
from railyard.work.training.prepare import faults_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.cluster import Cluster
    from railyard.work.scenario.load import Draft


@dataclass(frozen=True)
class Scheduled:
    """A schedule of one collective.

    Attributes:
        kind: Of the collective: `all-gather`.
        ranks: Of communicators that it is for.
        msccl: Text of its MSCCL algorithm.
        mscclpp: Text of its MSCCL++ plan; None where only MSCCL's is known.
    """

    kind: str
    ranks: int
    msccl: str
    mscclpp: str | None = None


@dataclass(frozen=True)
class CollectivesIntent:
    """What is fixed about collectives.

    Attributes:
        fixed: What libraries are told.
        schedules: What their interpreters play.
        left_out: Keys and words with no file, and why.
    """

    fixed: Fixed = field(default_factory=Fixed)
    schedules: tuple[Scheduled, ...] = ()
    left_out: tuple[str, ...] = ()


NOTHING = CollectivesIntent()


def collectives_of(draft: Draft, cluster: Cluster, progress: Callable[[str, float], None]) -> CollectivesIntent:
    """Of a scenario; schedules that a run would search are searched.

    Raises:
        InputError: The section is wrong, or a file in it.
    """
    section, schedules = draft.scenario.collectives, []
    with blaming(draft, "collectives"):
        policy_of(section, draft.folder, cluster, faults_of(draft))
    plain, left_out = {}, []
    for number, (key, word) in enumerate(section.algorithm.items()):
        if not word.startswith((written.FILE, searched.NAME)):
            plain[key] = word
            continue
        progress(f"the schedule of {key}", number / len(section.algorithm))
        found = _scheduled(draft, cluster, key, word)
        if isinstance(found, str):
            left_out.append(f"collectives.algorithm {key}: {word}: {found}")
        else:
            schedules.append(found)
    nics = cluster.hardware.nics
    fixed = Fixed(plain, dict(section.protocol), section.connections, section.pxn, nics)
    left_out += [f"collectives.{table} {key}: {name}: not NCCL's to set" for table, key, name in fixed.untold()]
    if section.selector != "library":
        left_out.append(f"collectives.selector: {section.selector}: not NCCL's to set")
    return CollectivesIntent(fixed, tuple(schedules), tuple(left_out))


def _scheduled(draft: Draft, cluster: Cluster, key: str, word: str) -> Scheduled | str:
    """A schedule, or why there is none: libraries know a communicator by its ranks, not by its name."""
    if key not in KINDS:
        return "libraries cannot be given a schedule for one group"
    if word.startswith(written.FILE):
        text = read_text(draft.folder / word.removeprefix(written.FILE).strip())
        return Scheduled(key, parsed(text).ranks, text)
    if cluster.ranks > searched.MOST_RANKS:
        return f"schedules are searched for up to {searched.MOST_RANKS} ranks"
    keeps = keeps_of(cluster, faults_of(draft))
    found = searched.found_for(cluster, np.arange(cluster.ranks), KINDS[key], searched.size_of(word), keeps)
    each = (found.network, found.schedule, key, found.cut)
    return Scheduled(key, cluster.ranks, msccl_xml(*each), mscclpp_json(*each))
