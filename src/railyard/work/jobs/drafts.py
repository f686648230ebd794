"""The scenario of one of several jobs as if it had the cluster, and its errors under the keys of the job."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.schema.yaml import Mark, Node, from_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.scenario.load import Draft


def draft_of(draft: Draft, number: int) -> Draft:
    """The scenario as if one job had the cluster; values keep their places in the file."""
    node = draft.tree.value["workload"].value["jobs"].value[number]
    kind = draft.scenario.jobs[number].kind
    return draft.changed(
        {
            "workload": Node({kind: node.value[kind]}, node.mark),
            "cluster.accelerators": node.value["accelerators"],
            "faults": from_plain([], Mark("scenario")),
        }
    )


@contextmanager
def as_job(number: int, kind: str) -> Iterator[None]:
    """Gives errors of one job the keys that it has among several."""
    place = f"workload.jobs.{number}"
    try:
        yield
    except InputError as error:
        raise InputError.many(
            replace(problem, key=_moved(problem.key, place, kind)) for problem in error.problems
        ) from None


def _moved(key: str | None, place: str, kind: str) -> str | None:
    if key == "cluster.accelerators":
        return f"{place}.accelerators"
    if key is not None and (key == f"workload.{kind}" or key.startswith(f"workload.{kind}.")):
        return f"{place}.{key.removeprefix('workload.')}"
    return key
