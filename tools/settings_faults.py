"""Random faults in the settings of a plan's switches, for `audit_faults.py`: as SONiC's files have them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.ask.audit.price import CROWDED_SHARE, StepPricing
from railyard.ask.deploy.emit.intent import switches
from railyard.ask.deploy.systems import sonic
from railyard.cluster.asbuilt.reported.reports import gather
from railyard.cluster.fault import DegradeLink, MisconfiguredSwitch
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.network_table import DIALECTS
from railyard.graph import Job
from railyard.work.study.study import prepare

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from railyard.ask.audit.symptom import AuditFinding
    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.ask.deploy.emit.intent import SwitchIntent
    from railyard.cluster.asbuilt.reported.reports import Reports
    from railyard.work.scenario.load import Draft

Tables = dict[str, Any]


@dataclass(frozen=True)
class Wrong:
    """A fault in a file.

    Attributes:
        switch: Its name.
        fact: What an audit calls it, in the words of its detail.
        kind: Of finding.
        alone: The same as a scenario's faults, where those have it; empty: cables without traffic, or nothing at all.
    """

    switch: str
    fact: str
    kind: str
    alone: tuple[MisconfiguredSwitch, ...] = ()


def _place(intent: SwitchIntent) -> str:
    """As faults call the switch: `be-leaf3` is `leaf 3`."""
    name = intent.name.removeprefix("be-")
    role = name.rstrip("0123456789")
    return f"{role} {name[len(role) :]}"


def _no_pfc(tables: Tables, intent: SwitchIntent, _dice: random.Random) -> Wrong:
    for row in tables["PORT_QOS_MAP"].values():
        row.pop("pfc_enable", None)
    return Wrong(
        intent.name, "ports that pause", "wrong-qos", (MisconfiguredSwitch(switch=_place(intent), pauses=False),)
    )


def _no_ecn(tables: Tables, intent: SwitchIntent, _dice: random.Random) -> Wrong:
    for row in tables["QUEUE"].values():
        row.pop("wred_profile", None)
    return Wrong(
        intent.name, "ports that mark", "wrong-qos", (MisconfiguredSwitch(switch=_place(intent), marks=False),)
    )


def _map(tables: Tables, intent: SwitchIntent, _dice: random.Random) -> Wrong:
    tables["DSCP_TO_TC_MAP"]["AZURE"]["26"] = "0"
    alone = MisconfiguredSwitch(switch=_place(intent), pauses=False, marks=False)
    return Wrong(intent.name, "code point and traffic class of RoCE", "wrong-qos", (alone,))


def _headroom(tables: Tables, intent: SwitchIntent, dice: random.Random) -> Wrong:
    share = dice.choice((8, 4, 2))
    for row in tables["BUFFER_PROFILE"].values():
        row["xoff"] = str(int(row["xoff"]) // share)
    alone = MisconfiguredSwitch(switch=_place(intent), headroom=1 / share)
    return Wrong(intent.name, "headroom", "wrong-qos", (alone,))


def _mtu(tables: Tables, intent: SwitchIntent, dice: random.Random) -> Wrong:
    tables["PORT"][dice.choice(intent.ports).port]["mtu"] = "1500"
    return Wrong(intent.name, "frames", "wrong-mtu")


def _session(tables: Tables, intent: SwitchIntent, dice: random.Random) -> Wrong:
    port = dice.choice(intent.sessions).port
    tables["BGP_NEIGHBOR"].pop(f"default|{port}")
    return Wrong(intent.name, "BGP sessions", "wrong-setting")


FAULTS: tuple[Callable[[Tables, SwitchIntent, random.Random], Wrong], ...] = (
    _no_pfc,
    _no_ecn,
    _map,
    _headroom,
    _mtu,
    _session,
)


def injected(plan: CablingPlan, dice: random.Random, count: int) -> tuple[dict[str, str], list[Wrong]]:
    """Files of all switches, some of them wrong, each switch in one fact at most of a kind.

    Returns:
        Texts by name of the switch; and what is wrong.
    """
    intents = list(switches(plan, 0, DIALECTS["sonic"]))
    tables = {intent.name: json.loads(sonic.render(intent)) for intent in intents}
    places = [(intent, fault) for intent in intents for fault in FAULTS]
    dice.shuffle(places)
    wrong = [fault(tables[intent.name], intent, dice) for intent, fault in places[:count]]
    return {name: json.dumps(one) for name, one in tables.items()}, wrong


def reports(texts: dict[str, str]) -> Reports | None:
    """The files as an audit reads them."""
    if not texts:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / f"{name}.config_db.json").write_text(text, encoding="utf-8")
        return gather([Path(folder)], texts)


def is_one(finding: AuditFinding) -> bool:
    """Whether a finding is of a setting; cables have other kinds."""
    return finding.kind in ("wrong-qos", "wrong-setting", "wrong-mtu")


def _key(finding: AuditFinding) -> tuple[str, str, str]:
    return finding.a.split("[", maxsplit=1)[0], finding.detail.split(":", maxsplit=1)[0], finding.kind


def compared(found: list[AuditFinding], wrong: list[Wrong]) -> None:
    """Prints how many are named, and how many invented."""
    want, said = {(one.switch, one.fact, one.kind) for one in wrong}, {_key(one) for one in found}
    if wrong:
        print(f"settings {len(want)}  found {len(want & said)}  missed {len(want - said)}  invented {len(said - want)}")
    for one in sorted(want ^ said):
        print("  ", one)


def prices(draft: Draft, found: list[AuditFinding], wrong: list[Wrong]) -> None:
    """Prints how far prices are from the same fault by its name, simulated alone."""
    alone = {(one.switch, one.fact, one.kind): one for one in wrong}
    job = prepare(draft)[0]
    step = StepPricing(job)
    places = ClusterPlaces.of(step.job.cluster)
    off, free = [], 0
    for one in found:
        meant = alone.get(_key(one))
        if meant is None or not meant.alone or not one.settings:
            free += meant is not None and one.unpriced != ""
            continue
        factor = _factor(one)
        faults = [DegradeLink(factor=1 / factor, link=link) for link in places.switch(meant.alone[0].switch).tolist()]
        record = step.job.engine.simulate(
            [Job(step.graph)], step.job.cluster, seed=step.seed, faults=faults if factor > 1 else ()
        )
        loss = 1 - step.step_s / (record.makespan_ps * 1e-12)
        off.append(abs(one.loss - loss) / loss if loss > 1e-6 else abs(one.loss) * 1e6)
    if off:
        within = sum(value <= 0.1 for value in off)
        print(f"prices of {len(off)} settings: most {max(off):.2%} off; within 10 %: {within}; without a price: {free}")


def _factor(finding: AuditFinding) -> float:
    """What the price says of the standard load."""
    words = finding.priced_by
    crowded, even = (float(words.split(before)[1].split()[0]) for before in ("take ", "even shifts "))
    return max((1 - CROWDED_SHARE) * even + CROWDED_SHARE * crowded, 1.0)
