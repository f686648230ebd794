"""Documents drawn from the schema are read, or refused at the right place; commands answer them or say why not."""

from __future__ import annotations

import os

import pytest
from tests.fuzz import commands
from tests.fuzz.documents import BASES, WORK, documents, examples, kind_of, text_of
from tests.fuzz.drawn import places
from tests.fuzz.scenarios import campaign, document, refusal

from railyard.kit.schema import yaml

CASES, RUNS = (int(os.environ.get(f"RAILYARD_FUZZ_{name}", most)) for name, most in (("CASES", 20_000), ("RUNS", 300)))
"""Documents that are read and commands that are run by `make test-all`; set them for a longer search."""


def test_every_section_has_numbers_with_ranges():
    assert len(places()) > 2500
    heads = {place.path[:2] if place.path[0] == "workload" else place.path[:1] for place in places()}
    assert {("cluster",), ("economics",), ("plan",), ("tune",), ("packet",), ("faults",), ("jitter",)} <= heads
    assert {("workload", kind) for kind in WORK} <= heads


def test_every_kind_of_work_has_a_base_that_is_read(tmp_path):
    assert {kind_of(root) for root in BASES.values()} == WORK
    for root in (*BASES.values(), *examples().values()):
        assert yaml.parse_mapping(text_of(root), "case.yaml").plain() == root
        assert refusal(root, tmp_path / "case.yaml") is None


def test_every_document_has_bases_numbers_and_keys():
    assert {one.name for one in documents()} == {"scenario", "cluster", "faults", "catalog", "fabric"}
    for one in documents():
        assert one.bases
        assert len(one.places) > 15
        assert len(one.spots) > 60


def test_every_command_that_reads_a_scenario_is_run():
    def leaves(command, words=()):
        inner = getattr(command, "commands", None)
        if inner is None:
            return [(" ".join(words), command)]
        return [leaf for name, one in inner.items() for leaf in leaves(one, (*words, name))]

    from railyard.face.cli.commands import command

    asks = {
        name
        for name, one in leaves(command())
        if any("scenario" in f"{getattr(given, 'help', '')} {given.metavar}".lower() for given in one.params)
    }
    assert set(commands.VERBS) | set(commands.LEFT_OUT) == asks
    assert {verb for verbs in commands.MEANT.values() for verb in verbs} | {"compare"} == set(commands.VERBS)


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("end", [0, -1])
def test_a_value_outside_any_range_is_refused_at_its_place(end, every, tmp_path):
    """Values below half of the ranges and above the others, or both of all."""
    file, wrong = tmp_path / "case.yaml", []
    bases = {kind_of(root): root for root in BASES.values()}
    for place in places()[end % every :: every]:
        beyond = place.outside()
        if not beyond:
            continue
        base = bases[place.path[1]] if place.path[0] == "workload" else BASES["training"]
        error = refusal(document(base, [(place, beyond[end])]), file)
        found = [problem for problem in ([] if error is None else error.problems) if problem.key == place.key]
        if not any(problem.line and problem.allowed and problem.found for problem in found):
            wrong.append((place.key, beyond[end], str(error)[:200]))
    assert not wrong


def test_documents_are_read_or_refused_at_their_place(tmp_path):
    found = campaign(1000, 26, tmp_path)
    assert not found.faults
    assert min(found.total("read"), found.total("refused")) > 150


def test_commands_answer_or_say_why_not(tmp_path):
    found = commands.campaign(20, 26, tmp_path)
    assert not found.faults
    assert found.total("answered") > 10


@pytest.mark.slow
def test_many_documents_are_read_or_refused_at_their_place(tmp_path):
    assert not campaign(CASES, 27, tmp_path).faults


@pytest.mark.slow
def test_commands_answer_many_scenarios_or_say_why_not(tmp_path):
    assert not commands.campaign(RUNS, 27, tmp_path).faults
