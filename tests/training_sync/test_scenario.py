"""The scenario's section: words, keys, what is refused, and what the result carries."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import TypeAdapter

from railyard.kit.errors import InputError
from railyard.measure.result.reading import result_from
from railyard.work.scenario import load
from railyard.work.scenario.conditions import one_of
from railyard.work.study.study import prepare
from railyard.work.study.study import run as execute
from railyard.work.training.sync import KINDS, DiLoCo, PowerSgd
from railyard.work.training.sync.check import check_values
from railyard.work.training.sync.spec import Communication
from railyard.work.training.sync.wire import Finding

BASE = {
    "name": "yard",
    "cluster": {"accelerators": 16, "server": "hgx-h100"},
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "global_batch": 16,
            "sequence": 4096,
            "parallelism": {"tp": 4, "zero": 0, "recompute": "full"},
        }
    },
}


def draft(communication=None, **training):
    values = copy.deepcopy(BASE)
    values["workload"]["training"] |= training
    if communication is not None:
        values["workload"]["training"]["communication"] = communication
    return load.from_values(values)


def asked(communication):
    return prepare(draft(communication))[0].training.communication


def test_a_word_and_keys():
    assert asked({"compression": "powersgd"}).compression == PowerSgd()
    assert asked({"compression": {"kind": "powersgd", "rank": 4}}).compression == PowerSgd(rank=4)
    updates = asked({"local_updates": {"kind": "diloco", "inner_steps": 100, "workers": 2}}).local_updates
    assert updates == DiLoCo(inner_steps=100, workers=2)
    assert asked({"compression": {"kind": "top-k", "density": "0.5 %", "value": "2 B"}}).compression.value_bytes == 2


@pytest.mark.parametrize(("part", "kind"), [(part, kind) for part, kinds in KINDS.items() for kind in kinds])
def test_every_kind_can_be_written(part, kind):
    section = draft({part: {"kind": kind}}).scenario.workload.training.communication
    assert getattr(section, part).kind == kind
    record = KINDS[part].get(kind)
    check_values(Communication(**{part: record()}))
    assert record.published
    assert all(finding.source and finding.effect and finding.scope for finding in record.published)


@pytest.mark.parametrize(
    ("communication", "words"),
    [
        ({"compression": "powersdg"}, "did you mean `powersgd`"),
        ({"compresion": "powersgd"}, "did you mean `compression`"),
        ({"compression": {"kind": "powersgd", "rnk": 4}}, "did you mean `rank`"),
        ({"compression": {"kind": "powersgd", "rank": 0}}, "must be at least 1"),
        ({"compression": {"kind": "top-k", "density": 0}}, "must be more than 0"),
        ({"compression": {"kind": "quantized", "gradient_bits": 5}}, "no such width"),
        ({"compression": {"kind": "one-bit", "warmup": "100 %"}}, "must be less than 1"),
        ({"compression": "zero++"}, "does not work with gradients that ZeRO-0 shards"),
        ({"local_updates": {"kind": "diloco", "workers": 3}}, "do not divide the 4"),
        ({"local_updates": {"kind": "diloco", "workers": 1}}, "local updates need two workers"),
        ({"local_updates": {"kind": "diloco", "inner_steps": 0}}, "must be at least 1"),
        ({"local_updates": {"kind": "streaming-diloco", "parts": 0}}, "must be at least 1"),
        ({"local_updates": {"kind": "streaming-diloco", "parts": 500}}, "more fragments than steps"),
        ({"asynchronous": {"kind": "stale-synchronous", "staleness": 0}}, "must be at least 1"),
        ({"asynchronous": "delayed", "scheduling": "priority"}, "need no order"),
        ({"asynchronous": "delayed", "compression": "top-k"}, "is not modelled"),
        ({"dispatch": "quantized"}, "expert parallelism is 1"),
        ({"sparse": {"kind": "embedding", "touched": 2}}, "must be at most 1"),
    ],
)
def test_what_is_refused_is_said(communication, words):
    with pytest.raises(InputError) as error:
        prepare(draft(communication))
    assert words in str(error.value)
    assert "workload.training.communication" in str(error.value)


def test_the_result_carries_price_and_published_effect():
    values = copy.deepcopy(BASE)
    updates = {"kind": "diloco", "workers": 2, "inner_steps": 3}
    values["compare"] = {"vary": {"communication": [{"compression": "powersgd"}, {"local_updates": updates}]}}
    result = execute(load.from_values(values)).result.plain()
    result_from(json.dumps(result))
    power, diloco = result["variants"]
    assert power["communication"]["sent_bytes"] < power["communication"]["plain_bytes"]
    assert any("1905.13727" in finding["source"] for finding in power["communication"]["convergence"])
    assert any("2311.08105" in line for line in diloco["warnings"])
    assert diloco["communication"]["between_workers"]["sent_bytes"] > 0
    (outer,) = [row["seconds"] for row in diloco["time"] if row["cause"] == "outer update"]
    assert outer > 0
    # All rows are the step, the part of a meeting that falls on each step among them.
    assert diloco["step"]["seconds"] == pytest.approx(sum(row["seconds"] for row in diloco["time"]), rel=1e-4)
    assert outer > 1e-3 * diloco["step"]["seconds"]


def test_the_search_for_a_layout_takes_only_those_that_work():
    training = prepare(draft({"compression": "zero++"}, parallelism={"auto": True, "tp": 1}))[0].training
    assert training.layout.zero == 3


def test_two_sites_gain_most_from_sending_less_often():
    """The claims of the example: over a thin link each remedy helps, and rare meetings cost next to nothing."""
    path = Path(__file__).parents[2] / "examples" / "two-sites-diloco.yaml"
    result = execute(load.load(path)).result.plain()
    step = {variant["name"]: variant["step"]["seconds"] for variant in result["variants"]}
    plain = step.pop("every step")
    assert max(step.values()) < 0.9 * plain
    assert step["DiLoCo, 500 steps"] < 0.5 * plain
    assert step["streaming DiLoCo"] < step["DiLoCo, 500 steps"]
    assert all(variant["communication"]["convergence"] for variant in result["variants"][1:])


def test_a_plug_in_adds_a_kind():
    """What registers before the scenario is read is a choice of its section, with its keys."""

    @dataclass(frozen=True)
    class Half(PowerSgd):
        """Half of it."""

        kind: ClassVar[str] = "half"
        published: ClassVar[tuple[Finding, ...]] = (Finding("none", "nowhere", "nobody"),)

    assert "half" not in KINDS["compression"]
    KINDS["compression"].add("half", Half)
    try:
        written = TypeAdapter(one_of("compression")).validate_python({"kind": "half", "rank": 2})
        assert (written.kind, written.rank) == ("half", 2)
    finally:
        KINDS["compression"]._records.pop("half")
