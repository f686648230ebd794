"""`fair-share`: the tenant that had least of late first, by its share.

Slurm's classic fair share factor 2^(-usage / share) orders by usage over share; so does this. Usage decays by half
every `half_life_us` of the rules (Slurm: PriorityDecayHalfLife, 7 days).
Source: https://slurm.schedmd.com/priority_multifactor.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.discipline import Discipline, disciplines

if TYPE_CHECKING:
    from railyard.work.operate.state import State


def _key(state: State, job: int) -> tuple[float, ...]:
    tenant = int(state.jobs.tenant[job])
    return (state.usage[tenant] / state.rules.share_of(state.jobs.tenants[tenant]),)


FAIR_SHARE = disciplines.add(
    "fair-share", Discipline("fair-share", "The tenant that used least of its share of late first.", _key, renews=True)
)
