"""Quotas in a tree of cohorts: what each queue may still use, of its own and borrowed.

A queue's usage counts against its own quota as far as that is not lent; beyond it, it counts in the cohort, and so on
to the root. Borrowing limits bound what a node takes from above it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.work.operate.kueue.queues import Quota

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from railyard.work.operate.kueue.queues import ClusterQueue, Cohort, Kind, ResourceGroup

_NONE = Quota()


@dataclass(eq=False)
class Account:
    """A queue or a cohort.

    Attributes:
        name: Its name.
        parent: The cohort above it.
        cohorts: Cohorts below it.
        queues: Names of the queues below it.
        quotas: Its own.
        subtree: What it and those below it have, as far as they lend it.
        used: What counts against it.
    """

    name: str
    quotas: dict[Kind, Quota]
    parent: Account | None = None
    cohorts: list[Account] = field(default_factory=list)
    queues: list[Account] = field(default_factory=list)
    subtree: dict[Kind, int] = field(default_factory=dict)
    used: dict[Kind, int] = field(default_factory=dict)

    def quota(self, kind: Kind) -> Quota:
        """Of a resource of a flavor; none: zero."""
        return self.quotas.get(kind, _NONE)

    def kept(self, kind: Kind) -> int:
        """What it does not lend."""
        lending = self.quota(kind).lending
        return 0 if lending is None else max(0, self.subtree.get(kind, 0) - lending)

    def spare(self, kind: Kind) -> int:
        """What is left of that."""
        return max(0, self.kept(kind) - self.used.get(kind, 0))

    def free(self, kind: Kind) -> int:
        """What it may still use, borrowed included; below zero where more is used than there is."""
        if self.parent is None:
            return self.subtree.get(kind, 0) - self.used.get(kind, 0)
        above = self.parent.free(kind)
        limit = self.quota(kind).borrowing
        if limit is not None:
            beyond = max(0, self.used.get(kind, 0) - self.kept(kind))
            above = min(above, self.subtree.get(kind, 0) - self.kept(kind) - beyond + limit)
        return self.spare(kind) + above

    def most(self, kind: Kind) -> int:
        """What it could use if nothing were used."""
        if self.parent is None:
            return self.subtree.get(kind, 0)
        found, limit = self.kept(kind) + self.parent.most(kind), self.quota(kind).borrowing
        return found if limit is None else min(found, self.subtree.get(kind, 0) + limit)

    def add(self, kind: Kind, amount: int) -> None:
        """Counts usage, and in the cohort what goes beyond what is kept."""
        spare = self.spare(kind)
        self.used[kind] = self.used.get(kind, 0) + amount
        if self.parent is not None and amount > spare:
            self.parent.add(kind, amount - spare)

    def remove(self, kind: Kind, amount: int) -> None:
        """Takes usage back."""
        beyond = self.used.get(kind, 0) - self.kept(kind)
        self.used[kind] = self.used.get(kind, 0) - amount
        if self.parent is not None and beyond > 0:
            self.parent.remove(kind, min(amount, beyond))

    def over(self, kind: Kind, more: int = 0) -> bool:
        """Whether it uses more than it has, with so much more."""
        return self.subtree.get(kind, 0) < self.used.get(kind, 0) + more

    def over_nominal(self, kind: Kind, more: int = 0) -> bool:
        """The same of a queue's nominal quota: whether it borrows."""
        return self.quota(kind).nominal < self.used.get(kind, 0) + more

    def within(self, kinds: Iterable[Kind]) -> bool:
        """Whether it uses no more than it has of any of them."""
        return not any(self.over(kind) for kind in kinds)

    def above(self) -> Iterator[Account]:
        """Cohorts from its own to the root."""
        account = self.parent
        while account is not None:
            yield account
            account = account.parent

    @property
    def height(self) -> int:
        """Levels below it."""
        return max([min(len(self.cohorts) + len(self.queues), 1), *(one.height + 1 for one in self.cohorts)])

    def reach(self, kind: Kind, amount: int) -> tuple[int, bool]:
        """How far it has to go for so much: height of the lowest cohort that has it, and whether that is not all.

        Zero: it has it itself.
        """
        if self.parent is None or not self.over_nominal(kind, amount):
            return 0, self.parent is not None
        left = amount - self.spare(kind)
        account = self.parent
        while account.over(kind, left) and account.parent is not None:
            left -= account.spare(kind)
            account = account.parent
        return account.height, account.parent is not None


def accounts(queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> dict[str, Account]:
    """The account of each queue, in the tree of cohorts.

    Raises:
        InputError: Cohorts are above one another.
    """
    queues, cohorts = list(queues), list(cohorts)
    specs = {cohort.name: cohort for cohort in cohorts}
    names = dict.fromkeys([*specs, *(one.parent for one in cohorts), *(one.cohort for one in queues)])
    tree = {name: Account(name, _quotas(specs[name].groups if name in specs else ())) for name in names if name}
    for cohort in cohorts:
        if cohort.parent:
            tree[cohort.name].parent = tree[cohort.parent]
            tree[cohort.parent].cohorts.append(tree[cohort.name])
    found = {}
    for queue in queues:
        account = found[queue.name] = Account(queue.name, _quotas(queue.groups))
        account.subtree = {kind: quota.nominal for kind, quota in account.quotas.items()}
        if queue.cohort:
            account.parent = tree[queue.cohort]
            tree[queue.cohort].queues.append(account)
    for account in tree.values():
        _refuse_circle(account)
        if account.parent is None:
            _fill(account)
    return found


def _quotas(groups: Iterable[ResourceGroup]) -> dict[Kind, Quota]:
    return {kind: quota for group in groups for kind, quota in group.quotas().items()}


def _refuse_circle(account: Account) -> None:
    seen = [account.name]
    for one in account.above():
        if one.name in seen:
            raise InputError("cohorts are above one another", found=" > ".join([*seen, one.name]))
        seen.append(one.name)


def _fill(account: Account) -> None:
    """Adds up what those below a cohort lend."""
    account.subtree = {kind: quota.nominal for kind, quota in account.quotas.items()}
    for child in account.cohorts:
        _fill(child)
    for child in (*account.cohorts, *account.queues):
        for kind, amount in child.subtree.items():
            account.subtree[kind] = account.subtree.get(kind, 0) + amount - child.kept(kind)


def charge(account: Account, usage: Mapping[Kind, int], sign: int = 1) -> None:
    """Counts usage of a queue, or takes it back."""
    for kind, amount in usage.items():
        (account.add if sign > 0 else account.remove)(kind, amount)
