"""Writes docs/validation/ablation.md: what each part of the training model explains. A few minutes.

python validation/tools/ablation.py
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from railyard import catalog
from railyard.work.training import profiles
from railyard_validation.training.ablation import CAUSES, ablation, effects, mean_error, without
from railyard_validation.training.cases import predicted_s, read_cases
from railyard_validation.training.fit import scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard_validation.training.ablation import Effect, Worth
    from railyard_validation.training.cases import Case

ROOT = Path(__file__).resolve().parents[2]
TRAINING = ROOT / "validation" / "data" / "training"
# Of the sweep on one node every tenth run is counted, so that it does not outweigh all else.
EVERY = 10
HEAD = """# Ablation

Written by `python validation/tools/ablation.py`, {date}. Parts of the training model are switched off, and the mean
|error| of the same steps is counted again. All steps here are forecast by `validate training`, that is in closed form.

## Causes of MLPerf Training v6.0, one by one

{newest} steps of June 2026 and the {older} judged steps before them. *Alone* is the error of the {newest} with this
cause and none of the others, *without it* with all of the others; rows are those that the cause moves by more than
0.1 %. Each cause is switched on by what a configuration says. The causes were sought with the {newest} steps in view:
no figure of this table is a claim of accuracy. Constants stay as they are: {constants} before the causes were found
and {constants} now.

| cause | else | rows | alone | without it | older rows | older without it |
|---|---|---|---|---|---|---|
{causes}
Causes add up badly where one needs another: without racks, or with all weights of a LoRA job trained, the others
cannot show what they are worth. What moves no error here is kept where a configuration states it. The width of frozen
weights moves memory alone, and stands on [its page](memory.md).

Tried and left out: gradients that hide altogether but for the last bucket. GPT-3's published steps on 10,000 H100 leave
half of them open, and would be forecast 9 to 18 % too short.

## Details, with constants fitted again

Each detail is off by itself on {rows} steps (the judged ones before v6.0, and every tenth of vTrain's on one node),
with the constants as they are, and with constants fitted again without the detail, since a constant may take over what
the detail explained. The families are those whose error the detail moves most, with constants fitted again. The column
of v6.0 keeps the constants. A detail that moves nothing here is kept where it is a fact that users change (a gap
between kernels, a fixed part).

| switched off | in its place | v6.0 | constants kept | fitted again | moves most |
|---|---|---|---|---|---|
{details}"""


def main() -> None:
    known = catalog.load()
    newest = read_cases(TRAINING / "mlperf_v6.csv", known)[0]
    older = [case for case in read_cases(TRAINING / "runs.csv", known)[0] if scored(case)]
    single = read_cases(TRAINING / "runs_single_node.csv", known)[0][::EVERY]
    found = ablation(older + single)
    text = HEAD.format(
        date=datetime.datetime.now(tz=datetime.UTC).date(),
        newest=len(newest),
        older=len(older),
        constants=len(profiles.constants()),
        causes=_causes(newest, older),
        rows=len(older) + sum(map(scored, single)),
        details="".join(_line(worth, found[0], newest) for worth in found),
    )
    (ROOT / "docs" / "validation" / "ablation.md").write_text(text, encoding="utf-8")


def _causes(newest: Sequence[Case], older: Sequence[Case]) -> str:
    none, whole = ([mean_error(cases, without(off, cases)) for cases in (newest, older)] for off in (CAUSES, ()))
    lines = [f"| none of these |  |  | {none[0]:.1%} |  |  | {none[1]:.1%} |\n"]
    lines += [_cause(effect) for effect in effects(newest, older)]
    lines += [f"| all of them |  |  | {whole[0]:.1%} |  |  | {whole[1]:.1%} |\n"]
    return "".join(lines).replace("%", " %")


def _cause(effect: Effect) -> str:
    cause = effect.cause
    errors = f"{effect.alone:.1%} | {effect.others:.1%} | {effect.older} | {effect.older_others:.1%}"
    return f"| {cause.name} | {cause.without} | {effect.newest} | {errors} |\n"


def _line(worth: Worth, whole: Worth, newest: Sequence[Case]) -> str:
    name, else_ = (worth.detail.name, worth.detail.without) if worth.detail else ("nothing", "")
    moved = {family: worth.refitted[family] - whole.refitted[family] for family in whole.refitted if family != "all"}
    most = sorted(moved, key=lambda family: -abs(moved[family]))[:2]
    said = "; ".join(
        f"{family} {100 * whole.refitted[family]:.1f} to {100 * worth.refitted[family]:.1f} %"
        for family in most
        if abs(moved[family]) > 5e-4
    )
    new = mean_error(newest, worth.detail.predict(newest) if worth.detail else predicted_s(newest))
    errors = [f"{100 * error:.1f} %" for error in (new, worth.kept["all"], worth.refitted["all"])]
    return f"| {name} | {else_} | {' | '.join(errors)} | {said} |\n"


if __name__ == "__main__":
    main()
