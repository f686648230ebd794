"""Studies are scenarios too large for every test run: they can be prepared, and their variants are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from railyard.work.scenario import load
from railyard.work.study.study import prepare
from railyard.work.training.graphs import hashes

STUDIES = sorted((Path(__file__).parents[2] / "examples" / "studies").glob("*.yaml"))


@pytest.mark.parametrize("study", STUDIES, ids=[study.stem for study in STUDIES])
def test_every_study_can_be_prepared(study: Path) -> None:
    assert len(prepare(load.load(study))) > 1


def test_the_roce_study_draws_hashes_only_where_it_says_so() -> None:
    (study,) = [study for study in STUDIES if study.stem == "roce-steps"]
    for job in prepare(load.load(study)):
        said = job.variant.name.startswith(("hashes", "others"))
        assert hashes(job.cluster) == said, job.variant.name
        assert (job.jitter.stalls != ()) == ("jitter" in job.variant.name)
