"""The layout of a measured row: what its label says, and what InferenceX's labels leave out.

Labels are of three kinds: `TP8 PP1 aDP1 mTP1 mEP8` (attention ranks, attention copies, ranks of experts), `P 1x(TP1
aDP8 EP8 bs1) D 2x(...)` (prefill and decode workers) and free text. InferenceX writes `tp` and `ep` of a server with
tp GPUs; aiconfigurator's samples multiply the two in several ways, which `_undone` undoes. Workers whose number the
label leaves out are those of the published deployment that is run with as many users (`serving_published`), and where
there is none, of a summary of all of them (`serving_recipes`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard_validation.serving.published import published
from railyard_validation.serving.recipes import LONG, WIDE, decoding, long_answers, recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard_validation.serving.published import Published, Side
    from railyard_validation.serving.table import Row

_PLAIN = re.compile(r"TP(\d+) PP(\d+) aDP(\d*) mTP(\d+) mEP(\d+)")
_POOL = re.compile(r"(\d*)x\(TP(\d+) aDP(\d+) EP(\d+) bs(\d*)\)")


# Said of rows without a label: whoever measures throughput takes the smallest replicas that hold a batch.
FEWEST = "replicas of the fewest accelerators that hold the weights and a batch"


# Said of split deployments whose labels name neither replicas nor, mostly, whether tokens are drafted.
COUNTLESS = "the label leaves out the number of workers; as InferenceX's recipes deploy that load"
# Said of those that one published deployment has the users of.
NAMED = "the label leaves out the number of workers; those of the deployment that InferenceX runs with as many users"
# Said where several have.
SEVERAL = "the label leaves out the number of workers; one of the deployments that InferenceX runs with as many users"
# Share of the way, in the logarithm, to the time with drafts where recipes with and without bear one label.
DRAFT_SHARE = 0.75

# Users of one replica that decodes, where a deployment of many is wanted; up to which a rack decodes on 48 of its 72.
_CROWD = 512
# The same of small models with experts, whose attention has copies from so many users on.
_SMALL_COPIES = 256
_RACK_USERS = 4096


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas of one kind: how many, and the degrees of each."""

    workers: int
    tp: int
    dp: int
    ep: int
    pp: int = 1

    @property
    def ranks(self) -> int:
        """Accelerators of one replica."""
        return self.tp * self.dp * self.pp


@dataclass(frozen=True, slots=True)
class Found:
    """Pools of a row.

    Attributes:
        decode, prefill: `prefill` is None where one pool does both.
        defaults: What was assumed.
        drafts: Tokens drafted in each iteration, and how sure that is, where a published deployment tells it.
    """

    decode: Pool
    prefill: Pool | None
    defaults: tuple[str, ...]
    drafts: tuple[int, float] | None = None


def layout_of(row: Row, *, experts: bool) -> Found | str:
    """The pools of a row, or why they cannot be told.

    Args:
        row: Measured.
        experts: Whether the model has experts.
    """
    text = row.get("parallelism")
    pools = _POOL.findall(text)
    if len(pools) == 2:
        return _split(row, pools, experts=experts)
    plain = _PLAIN.match(text)
    if plain:
        return _together(row, plain, experts=experts)
    return _free(row, text, experts=experts)


def _together(row: Row, plain: re.Match[str], *, experts: bool) -> Found | str:
    tp, pp, mtp, mep = (int(plain.group(place)) for place in (1, 2, 4, 5))
    dp = int(plain.group(3) or 0)
    name = re.search(r"_tp(\d+)_(?:0_)?ep(\d+)_", row.get("source") + "_")
    defaults: tuple[str, ...] = ()
    if plain.group(3):
        tp, dp, mtp, mep, defaults = _undone(tp, max(dp, 1), mtp, mep)
        total = tp * dp
        if total > 8 and mep == 1 and name and row.get("accelerator").startswith("gb"):
            return _rack(row, total)
    elif experts and mtp * mep > tp:
        dp = mtp * mep // tp
    ep = min(max(mep, 1), tp * max(dp, 1)) if experts else 1
    return Found(Pool(1, tp, max(dp, 1), ep, pp), None, defaults)


def _undone(tp: int, dp: int, mtp: int, mep: int) -> tuple[int, int, int, int, tuple[str, ...]]:
    """Degrees of the server behind a label in which tp and ep were multiplied."""
    total = tp * dp
    said = ("the label multiplies tp and ep; the server has as many GPUs as tp",)
    if mtp == mep > 1 and total in (mtp * mtp, mtp * mtp // 1):
        return (mtp, 1, 1, mep, said) if dp == 1 else (1, mtp, 1, mep, said)
    if mtp > 1 and mep > 1 and total == mtp * mep:
        return (mtp, 1, 1, mep, said) if dp == 1 else (1, mtp, 1, mep, said)
    if tp == dp > 1 and mep == total:
        return tp, 1, 1, tp, said
    return tp, dp, mtp, mep, ()


def _rack(row: Row, total: int) -> Found:
    """InferenceX's first rack results: `tp` counts the GPUs of all prefill and decode workers together."""
    said = ("the label counts all GPUs of a split deployment; workers as InferenceX deploys that many",)
    users = _users(row)
    named = published(row, users, (total, 1, total))
    if named:
        return _as_published(named)
    if row.get("framework").startswith("sglang"):
        ahead = {72: 40, 48: 16, 20: 4, 12: 4}.get(total, total // 2)
        if total < 24:
            return Found(Pool(max((total - ahead) // 4, 1), 1, 4, 4), Pool(1, 1, ahead, ahead), said)
        behind = total - ahead
        return Found(Pool(1, 1, behind, behind), Pool(ahead // 4, 1, 4, 4), said)
    if users < 600 and (total - 4) % 8 == 0:
        return Found(Pool((total - 4) // 8, 8, 1, 8), Pool(1, 4, 1, 4), said)
    behind = max(width for width in (8, 16, 32, 48) if width < total)
    ahead = max((total - behind) // 4, 1)
    return Found(Pool(1, 1, behind, behind), Pool(ahead, 1, 4, 4), said)


def _split(row: Row, pools: list[tuple[str, ...]], *, experts: bool) -> Found | str:
    (count, tp, dp, ep, _), (count2, tp2, dp2, ep2, _) = pools
    degrees = [*_unparted(int(tp), int(dp), int(ep)), *_unparted(int(tp2), int(dp2), int(ep2))]
    if count and count2:
        ahead, behind = int(count), int(count2)
        wide = [max(number, 1) for number in degrees]
        return Found(
            Pool(behind, wide[3], wide[4], _experts(wide[3], wide[4], wide[5], experts)),
            Pool(ahead, wide[0], wide[1], _experts(wide[0], wide[1], wide[2], experts)),
            (),
        )
    named = published(row, _users(row), (degrees[0], degrees[2], degrees[3]))
    # One accelerator holds no large model: such a label counts nothing at all.
    if named and (degrees[3] > 1 or "gpt-oss" in row.get("model")):
        return _as_published(named)
    return _counted(row, degrees, experts=experts)


def _unparted(tp: int, dp: int, ep: int) -> tuple[int, int, int]:
    """Copies of attention in one server without parted experts are what SGLang calls `dp` of one tensor group."""
    return (dp, 1, 1) if tp == 1 and ep == 1 and 1 < dp <= 4 else (tp, dp, ep)


def _experts(tp: int, dp: int, ep: int, experts: bool) -> int:
    """Experts go over all attention copies when the label says nothing else."""
    if not experts:
        return 1
    return min(max(ep, dp), tp * dp)


def _counted(row: Row, degrees: list[int], *, experts: bool) -> Found:
    """Both labels without counts: how many, and whether attention is copied, follows the published recipes."""
    ahead_tp, _, ahead_ep, behind_tp, _, behind_ep = degrees
    users, prompt = _users(row), row.real.get("isl", 0.0)
    said = (COUNTLESS,)
    if ahead_tp == behind_tp and ahead_tp > 8 and row.get("accelerator").startswith("gb"):
        rack = _rack(row, ahead_tp)
        return Found(rack.decode, rack.prefill, said)
    if not experts:
        return Found(Pool(1, behind_tp, 1, 1), Pool(1, ahead_tp, 1, 1), said)
    if "gpt-oss" in row.get("model"):
        copies = users >= _SMALL_COPIES and prompt < LONG
        decode = (
            Pool(2, 1, 2, 2) if copies and behind_tp == 2 and users >= 2 * _CROWD else Pool(1, 1, behind_tp, behind_tp)
        )
        if not copies:
            decode = Pool(1, behind_tp, 1, max(behind_ep, 1))
        return Found(decode, Pool(1, ahead_tp, 1, max(ahead_ep, 1)), said)
    known = recipe(row.get("framework"), row.get("accelerator"), prompt)
    if behind_tp == 1:
        # One accelerator cannot hold the model: the label counts nothing at all.
        wide = 48 if users <= _RACK_USERS else 32
        decode = Pool(1, 1, wide, wide) if users >= _CROWD else Pool(known.tensor if known else 2, 4, 1, 1)
        return Found(decode, Pool(1, 4, 1, 1), said)
    wide_rack = behind_tp >= WIDE and not row.get("accelerator").startswith("h100")
    workers, copies = (1, wide_rack) if known is None else decoding(known, users, behind_tp, behind_ep)
    if wide_rack:
        workers, copies = 1, True
    if row.real.get("osl", 0.0) >= LONG:
        workers = long_answers(row.get("framework"), row.get("accelerator"), behind_tp, workers)
    if copies:
        return Found(Pool(workers, 1, behind_tp, behind_tp), Pool(1, 1, ahead_tp, ahead_tp), said)
    ep = behind_tp if behind_ep > 1 else 1
    return Found(Pool(workers, behind_tp, 1, ep), Pool(1, ahead_tp, 1, max(ahead_ep, 1)), said)


def _as_published(named: Sequence[Published]) -> Found:
    """The published deployment; where several are run with as many users, the first that drafts, or the first."""
    sure = len({(one.prefill.workers, one.prefill.tp, one.decode, one.drafts) for one in named}) == 1
    drafting = [one for one in named if one.drafts]
    own = (drafting or named)[0]
    share = DRAFT_SHARE if 0 < len(drafting) < len(named) else 1.0
    return Found(_pool(own.decode), _pool(own.prefill), (NAMED if sure else SEVERAL,), (own.drafts, share))


def _pool(side: Side) -> Pool:
    return Pool(side.workers, 1 if side.copies else side.tp, side.tp if side.copies else 1, side.ep)


def _users(row: Row) -> float:
    found = re.search(r"conc\D*(\d+)", row.get("load"))
    return float(found.group(1)) if found else 0.0


def widened(found: Found, least: int) -> Found:
    """The same accelerators in replicas of at least `least` ranks, where the label said nothing."""
    if FEWEST not in found.defaults:
        return found
    count = found.decode.workers
    tp = min(least, count)
    return Found(Pool(max(count // tp, 1), tp, 1, 1), None, found.defaults)


def _free(row: Row, text: str, *, experts: bool) -> Found | str:
    """Labels such as `TP8`, `TP1 EP8 DP8`, `EP144, DP144 (18 nodes/unit)`, or none at all."""
    count = int(row.real.get("n_accel", 0)) or 1
    # TEP8: tensor-parallel attention and parted experts on 8; DEP8: a copy of attention on each.
    plain = re.sub(r"\b([TD])EP(\d+)", r"\1P\2 EP\2", text)
    found = {name: int(number) for name, number in re.findall(r"\b(TP|EP|DP|PP)\s?(\d+)", plain)}
    if not found:
        return Found(Pool(count, 1, 1, 1), None, (FEWEST,))
    ep, dp, pp = found.get("EP", 1), found.get("DP", 1), found.get("PP", 1)
    tp = found.get("TP", 1)
    if "TP" not in found and ep > 1:
        dp = max(dp, ep)
    if found.get("DP") == 1 and ep > tp:
        # Expert parallelism alone: vLLM lays it over its tensor parallelism, so all ranks split one copy of attention.
        tp = ep
    elif dp == 1 and ep > tp:
        dp = ep // tp
    if tp > 1 and dp > 1 and tp == ep == dp:
        tp = 1
    ranks = tp * dp
    return Found(Pool(max(count // (ranks * pp), 1), tp, dp, min(ep, ranks) if experts else 1, pp), None, ())
