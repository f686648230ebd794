"""The order of a study, on a kind of work of its own: what is called when, what is written, how far it says it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from railyard import work
from railyard.face import api
from railyard.graph import Record
from railyard.kit.errors import InputError, SimulationError
from railyard.measure.network import packet_section
from railyard.measure.result.variants import TrafficVariant
from railyard.work.study import study
from railyard.work.study.kind import StudyKind, kinds
from railyard.work.study.tasks import Control, Meter


@dataclass(frozen=True)
class Sums:
    """A document whose variants are numbers."""

    numbers: tuple[int, ...]
    kind: str = "sums"
    title: str = "sums of squares"
    seed: int = 7


@dataclass(frozen=True)
class Number:
    name: str
    value: int


NOTHING = Record(
    rows="flows",
    who=np.zeros(0, np.int32),
    what=np.zeros(0, np.int32),
    start_ps=np.zeros(0, np.int64),
    end_ps=np.zeros(0, np.int64),
    size_bytes=np.zeros(0, np.int64),
    optional={"target": np.zeros(0, np.int32)},
)


@dataclass(frozen=True)
class Squared:
    variant: TrafficVariant
    digest: str
    sources: tuple = ()
    left_out: tuple = ("cubes",)
    defaults: tuple = ()


def squared(number: Number, control: Control) -> int:
    if number.value < 0:
        raise SimulationError(f"no square of {number.value}")
    for part in range(4):
        control.progress(number.name, (part + 1) / 4)
    return number.value**2


def variant(square: int) -> TrafficVariant:
    return TrafficVariant(name=str(square), settings={"square": square}, packet=packet_section(NOTHING, {}))


def noted(found: Squared, **figures: int) -> Squared:
    settings = {**found.variant.settings, **figures}
    return replace(found, variant=found.variant.model_copy(update={"settings": settings}))


SUMS = StudyKind(
    name="sums",
    expand=lambda document, varies: (
        [Number(f"n{value}", value) for value in (*document.numbers, *map(int, varies))],
        (),
    ),
    resolved=lambda document, varies: {"name": "sums", "numbers": [*document.numbers, *varies]},
    prepare=lambda variants, _engine: variants,
    engine=lambda _number: "abacus",
    run=squared,
    measure=lambda square: Squared(variant(square), f"{square:x}"),
    search=lambda square, found, _control: noted(found, double=2 * square),
    relate=lambda measured: [noted(found, of=len(measured)) for found in measured],
    write=lambda folder, square, _found: (folder / "square.txt").write_text(str(square)),
    write_inputs=lambda *_: None,
)


@pytest.fixture(autouse=True, params=[False, True], ids=["one by one", "at once"])
def registered(request, monkeypatch):
    monkeypatch.setitem(kinds._records, "sums", replace(SUMS, parallel=request.param))


def test_every_step_has_its_place(tmp_path):
    shares: list[float] = []
    finished = study.run(
        Sums((3, 11)),
        ["13"],
        out=tmp_path,
        faces=[lambda result, folder: (folder / "face.txt").write_text(result.name)],
        progress=lambda _what, share: shares.append(share),
    )
    variants = [variant["settings"] for variant in finished.result.plain()["variants"]]
    assert [variant["square"] for variant in variants] == [9, 121, 169]
    assert [variant["double"] for variant in variants] == [18, 242, 338]
    assert {variant["of"] for variant in variants} == {3}
    provenance = finished.result.plain()["provenance"]
    assert (provenance["engine"], provenance["seed"], provenance["digest"]) == ("abacus", 7, "9")
    assert provenance["left_out"] == ["cubes"]
    assert finished.folder is not None
    written = {str(path.relative_to(finished.folder)) for path in finished.folder.rglob("*") if path.is_file()}
    places = {"square.txt", "variants/1-n11/square.txt", "variants/2-n13/square.txt"}
    assert written == {"result.json", "face.txt", ".railyard-files", *places}
    assert (finished.folder / "variants/2-n13/square.txt").read_text() == "169"
    assert json.loads((finished.folder / "result.json").read_text()) == finished.result.plain()
    assert shares == sorted(shares)
    assert shares[-2:] == [0.99, 1.0]


def test_a_run_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(SimulationError, match="no square of -5"):
        study.run(Sums((2, -5)), out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_nothing_is_written_that_was_not_asked_for():
    finished = study.run(Sums((5,)))
    assert finished.folder is None
    assert [found.digest for found in finished.measured] == ["19"]


def test_the_share_of_two_variants_is_their_mean():
    told: list[float] = []
    meter = Meter(lambda _what, share: told.append(share), [0.0, 0.0])
    meter.of(1)("b", 0.5)
    meter.of(0)("a", 0.3)
    meter.done(1)
    meter.of(0)("a", 7.0)
    assert told == [0.25, 0.4, 0.99]


def test_simulations_are_counted_as_shares():
    told: list[tuple[str, float]] = []
    count = Control(lambda what, share: told.append((what, share)), None).counted(5)
    for what in "abc":
        count(what)
    assert told == [("a", 0.2), ("b", 0.4), ("c", 0.6)]


def test_every_kind_is_the_folder_of_its_name():
    names = {path.parent.name for path in Path(work.__path__[0]).glob("*/kind.py")} - {"study"}
    assert {"training", "serving", "pipeline", "traffic"} <= names
    assert all(kinds.get(name).name == name for name in names)
    with pytest.raises(InputError, match="no kind of work `trainin`"):
        kinds.get("trainin")


def test_an_engine_that_is_asked_for_is_the_one_in_the_kept_scenario(tmp_path):
    """So that running the kept scenario again gives the same, and two engines do not share a folder."""
    scenario = Path(__file__).parents[3] / "examples" / "traces" / "goal.yaml"
    kept = {name: api.run(scenario, engine=name, out=tmp_path).folder for name in ("flow", "analytic")}
    assert len(set(kept.values())) == 2
    assert all(f"engine: {name}" in (folder / "scenario.yaml").read_text() for name, folder in kept.items())


def test_no_engine_is_asked_for_where_variants_differ_in_theirs():
    scenario = Path(__file__).parents[3] / "examples" / "jobs.yaml"
    with pytest.raises(InputError, match="compares engines"):
        api.run(scenario, engine="flow", out=None)
