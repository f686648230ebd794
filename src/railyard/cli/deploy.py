"""`railyard audit`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.cli.messages import say
from railyard.cli.tables import Table, emit
from railyard.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.deploy.audit.audit import Audit

SHOWN = 40


def audit(*, ibnetdiscover: Path | None, lldp: Path | None, plan: Path | None, as_json: bool) -> None:
    """Prints what is wrong with a network as found, dearest first.

    Raises:
        InputError: There is not exactly one discovery, it holds nothing, or the plan is wrong.
    """
    from railyard.deploy.audit.audit import audit as audited
    from railyard.deploy.audit.audit import audit_plan
    from railyard.deploy.audit.sources import discovered
    from railyard.scenario import load

    if (ibnetdiscover is None) == (lldp is None):
        raise InputError("an audit reads one discovery", allowed="`--ibnetdiscover FILE` or `--lldp FOLDER`")
    draft = None if plan is None else load.load(plan)
    there = discovered(ibnetdiscover, lldp)
    found = audited(there) if draft is None else audit_plan(there, draft)
    if as_json:
        emit(json.dumps(found.plain(), ensure_ascii=False, allow_nan=False))
        return
    for problem in found.problems[:SHOWN]:
        say(problem.render())
    _design(found)
    emit("")
    _work(found)


def _design(found: Audit) -> None:
    design = found.design
    tiers = ", ".join(f"{count} {tier}" for tier, count in design["tiers"].items())
    emit(f"{design['source']} design: {tiers or 'no switches'} switches, {design['host_ports']:,} host ports")
    for block in design["blocks"]:
        lows, highs = block["switches"]
        loads = block["worst_shift_load"]
        words = "" if loads is None else f"; worst load of a shift permutation {loads[0]:g} to {loads[1]:g}"
        emit(
            f"  {lows} {block['lower']} x {highs} above, {block['cables_a_pair']} cables a pair:"
            f" {block['found']:,} of {block['cables']:,} cables{words}"
        )
    for words in design["doubts"]:
        say(f"not sure: {words}")
    say(design["assumptions"])


def _work(found: Audit) -> None:
    """The work list: repairs in the order in which they pay."""
    if not found.findings:
        emit("nothing is wrong")
        return
    heads = ("", "kind", "end", "end", "loss", "$/month", "left", "what to do")
    table = Table(heads, (0, 4, 5, 6))
    for number, one in enumerate(found.findings[:SHOWN], 1):
        left = found.repairs[number - 1] if number <= len(found.repairs) else None
        table.add(
            str(number),
            one.kind,
            one.a,
            one.b,
            f"{one.loss:.2%}",
            f"{one.usd_per_month:,.0f}",
            "" if left is None else f"{left:.2%}",
            one.detail,
        )
    table.print()
    if len(found.findings) > SHOWN:
        emit(f"and {len(found.findings) - SHOWN} more: `--json` has all")
    emit(f"all together: {found.design['loss']:.2%}, ${found.design['usd_per_month']:,.0f} a month")
