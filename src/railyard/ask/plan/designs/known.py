"""What a plan has on disk: outcomes, each under a name for all that it follows from, so that none is found twice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from railyard.work.scenario.load import dump
from railyard.work.study.inputs import digest_of, digests_of
from railyard.work.study.journal import key_of
from railyard.work.study.provenance import version
from railyard.work.study.tasks import GONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.ask.plan.designs.space import Space
    from railyard.work.scenario.load import Draft
    from railyard.work.study.journal import Journal


@dataclass
class Known:
    """Outcomes by their names.

    Attributes:
        draft: The scenario with its plan.
        space: All designs.
        excluded: Names that constraints exclude.
        journal: What is known.
    """

    draft: Draft
    space: Space
    excluded: tuple[str, ...]
    journal: Journal

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan as a worker reads it."""
        values = self.draft.tree.plain()
        folder = str(self.draft.folder.resolve())
        return {"values": values, "folder": folder, "digest": key_of(values, folder)}

    def key(
        self, point: int, demand: int, engine: str, layout: Mapping[str, Any] | None = None, budget_hops: float = 0.0
    ) -> str:
        """What an outcome follows from, the contents of files too."""
        changes = {key: node.plain() for key, node in self.space.demands[demand].changes.items()}
        settings = self.space.settings(point)
        named = [self._contents(value) for value in (*settings.values(), *changes.values())]
        names = self.excluded if engine == "analytic" else ()
        more = [budget_hops] if budget_hops else []
        return key_of(self._base, settings, changes, engine, layout, names, [text for text in named if text], *more)

    def kept(self, key: str) -> dict[str, Any] | None:
        """An outcome of this run or an earlier one; None where it is not known."""
        found: dict[str, Any] | None = self.journal.known.get(key)
        return found

    def keep(self, key: str, row: Mapping[str, Any], error: str, *, sync: bool = True) -> None:
        """Puts an outcome on disk, failures too; but for a process that was killed, which may live another time."""
        if error != GONE:
            self.journal.add(key, row, sync=sync)

    @cached_property
    def _base(self) -> str:
        base = self.space.base
        return key_of(version(), dump(base.scenario), digests_of(base), dict(self.space.delivery))

    def _contents(self, value: object) -> str:
        """Of the file that a value names; empty where it names none."""
        if not isinstance(value, str) or not ("/" in value or "." in value):
            return ""
        if value not in self._read:
            self._read[value] = digest_of(self.draft.folder / value)
        return self._read[value]

    @cached_property
    def _read(self) -> dict[str, str]:
        return {}
