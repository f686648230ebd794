"""Answers of commands: what is kept, and their pages."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from railyard.face.reports import answer_html, keep_answer, report_html, write_report
from railyard.graph import Record
from railyard.kit.errors import InputError
from railyard.measure.network import packet_section
from railyard.measure.result.answers import (
    NAMES,
    AuditAnswer,
    DiagnosisAnswer,
    FindingRow,
    PicturePlace,
    SuspectRow,
    answer_from,
)
from railyard.measure.result.choices import KindGain, SeenGain, SettingChange, TuneAnswer, UnseenCase, UnseenGain
from railyard.measure.result.reading import Result
from railyard.measure.result.section import ProvenanceFigures
from railyard.measure.result.variants import TrafficVariant

if TYPE_CHECKING:
    from pathlib import Path

SUSPECT = SuspectRow(
    part="rank 3", kind="rank", confidence=0.9, pattern="intermittent", slow_steps=(4, 7),
    evidence="it is late</script>", usd_per_hour=12.5,
)  # fmt: skip


def diagnosis(*verdict: SuspectRow, unknown: bool = False) -> DiagnosisAnswer:
    return DiagnosisAnswer(
        format="railyard-diagnosis/1", name="tuesday", version="1", verdict=verdict, unknown=unknown, missing_ranks=(),
        what_if={}, notes=(), steps=(), picture=None,
    )  # fmt: skip


def audit(*usd: float) -> AuditAnswer:
    nowhere = PicturePlace(boxes=(), edges=())
    findings = tuple(
        FindingRow(
            kind="missing", about="gone", a=f"leaf{number}[1]", b="?", detail="", loss=0.1, usd_per_month=one,
            worst_load=1.0, all_reduce=1.0, place=nowhere, cables=(),
        )
        for number, one in enumerate(usd)
    )  # fmt: skip
    return AuditAnswer(
        format="railyard-audit/1", name="hall", version="1", findings=findings, design={}, loss=0.1,
        usd_per_month=sum(usd), loss_after_repair=(), usd_after_repair=(), problems=(), picture=None,
    )  # fmt: skip


def tuned(*, recommended: bool) -> TuneAnswer:
    settings = {"qps": 4}
    return TuneAnswer(
        format="railyard-tune/1", name="t", version="1", engine="flow", stopped=False, settings=settings,
        recommended=settings if recommended else {},
        changes=(SettingChange(key="qps", before=None, after=4, alone=0.25, without=0.33),),
        seen=SeenGain(default_s=2.0, tuned_s=1.5, gain=0.25),
        unseen=UnseenGain(
            gain=0.2, low=0.1, high=0.3, confidence=0.9,
            kinds=(KindGain(kind="draw", count=1, gain=0.2, low=None, high=None),),
            cases=(UnseenCase(kind="draw", seed=1, load=0.0, job="", default_s=2.0, tuned_s=1.6),),
            tails=(), curves=(), slice=1.0,
        ),
        trials=(), environment="", tuner="",
    )  # fmt: skip


def shown(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_the_answer_comes_back_out_of_its_page():
    answer = diagnosis(SUSPECT)
    assert embedded(answer_html(answer)) == answer.plain()
    assert answer_from(answer.text()) == answer


def test_an_answer_is_kept_with_its_page_and_its_cluster(tmp_path):
    folder = keep_answer(diagnosis(SUSPECT), tmp_path / "runs", "cluster: {}\n")
    assert folder.name.startswith("diagnosis-tuesday-")
    assert shown(folder) == ["diagnosis.html", "diagnosis.json", "scenario.yaml"]
    assert keep_answer(diagnosis(SUSPECT), tmp_path / "runs", "cluster: {}\n") == folder
    other = keep_answer(diagnosis(), tmp_path / "runs")
    assert other != folder
    assert shown(other) == ["diagnosis.html", "diagnosis.json"]


def test_every_answer_says_itself_in_a_sentence():
    assert diagnosis().sentence() == "Nothing is wrong."
    unknown = "The measurements do not tell which part is to blame, if any."
    assert diagnosis(unknown=True).sentence() == unknown
    alone = "Rank 3 is to blame (rank, 90 % sure): it is late</script>; it costs $12 an hour"
    assert diagnosis(SUSPECT).sentence() == f"{alone}."
    assert diagnosis(SUSPECT, SUSPECT).sentence() == f"{alone}; also named: rank 3 (rank, 90 % sure)."
    doubtful = SUSPECT.model_copy(update={"confidence": 0.27})
    maybe = "No part is certain; it may be rank 3 (rank, 27 % sure): it is late</script>; it costs $12 an hour."
    assert diagnosis(doubtful, unknown=True).sentence() == maybe
    assert audit().sentence() == "No fault was found."
    loss = f"{100 * audit(2_000.0, 5.0).loss:.1f} %"
    assert audit(2_000.0, 5.0).sentence() == (
        f"2 faults cost $2,005 a month, {loss} of accelerator time; repair first: missing at leaf0[1] ($2,000)."
    )
    both = audit(2_000.0, 2_000.0).model_copy(update={"usd_after_repair": (2_000.0, 0.0), "usd_per_month": 2_000.0})
    assert both.sentence().endswith(
        "repair first, together: leaf0[1], leaf1[1] ($2,000; the first alone saves nothing)."
    )
    words = "steps are 20.0 % shorter (90 % interval 10.0 to 30.0 %) on 1 unseen case."
    assert tuned(recommended=True).sentence() == f"Change 1 setting: {words}"
    kept = "Keep the settings as written: 1 setting may gain by chance only, "
    assert tuned(recommended=False).sentence() == kept + words
    early = tuned(recommended=False).model_copy(update={"stopped": True, "unseen": None})
    assert early.sentence() == (
        "Keep the settings as written, because the search was stopped:"
        " steps are 25.0 % shorter with 1 setting, on draws of the search only."
    )
    plain = tuned(recommended=True).plain()
    plain["unseen"]["cases"].append({**plain["unseen"]["cases"][0], "kind": "job", "job": "another"})
    assert TuneAnswer.model_validate_json(json.dumps(plain)).sentence().endswith("on 2 unseen cases.")


@pytest.mark.parametrize("text", ["", "{}", '{"format": "railyard/1"}', '{"format": "railyard-audit/1", "x": 1}'])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(InputError):
        answer_from(text)


def test_every_kind_has_a_file_of_its_own():
    assert sorted(NAMES.values()) == [
        "audit", "calibration", "check", "diagnosis", "placement", "plan", "scale", "tune",
    ]  # fmt: skip


# The report carries the whole result in one file that fetches nothing.

NONE = np.zeros(0, np.int64)
NOTHING = Record(
    rows="flows",
    who=NONE.astype(np.int32),
    what=NONE.astype(np.int32),
    start_ps=NONE,
    end_ps=NONE,
    size_bytes=NONE,
    optional={"target": NONE.astype(np.int32)},
)


def embedded(page: str, seat: str = "result") -> dict[str, object]:
    match = re.search(rf'id="railyard-{seat}">([^<]*)<', page)
    assert match is not None
    return json.loads(gzip.decompress(base64.b64decode(match.group(1))))


def named(name: str) -> Result:
    """A result of nothing but a name."""
    words = dict.fromkeys(("version", "engine", "digest", "created"), "x")
    lists = dict.fromkeys(("sources", "left_out", "defaults"), ())
    return Result(
        format="railyard/result-1",
        name=name,
        scenario={"rate": 1.25},
        provenance=ProvenanceFigures(**words, **lists, seed=0),
        variants=(TrafficVariant(name="roce", settings={}, packet=packet_section(NOTHING, {})),),
    )


def test_the_result_comes_back_out_of_the_page() -> None:
    result = named("</script><b>é")
    page = report_html(result)
    assert embedded(page) == result.plain()
    verdict = embedded(page, "decision")["verdict"]
    assert verdict == "0 of 0 flows finish on roce."


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    result = named("a")
    write_report(result, tmp_path / "one.html")
    write_report(result, tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["one.html", "two.html"]


def test_nothing_is_fetched() -> None:
    page = report_html(named("a"))
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert not re.search(r"@import|url\(", page)
