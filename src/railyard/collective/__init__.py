"""Collectives: which rank sends how much to which, the algorithm that a library chooses, and its cost on links."""

from railyard.kit import lazily

with lazily(globals()):
    from railyard.collective.algorithm import (
        ALGORITHMS,
        NETWORK,
        Algorithm,
        Pattern,
        Schedule,
        Send,
        Steps,
        domain_switch,
    )
    from railyard.collective.choice import Choice, Choices, choose, choose_many
    from railyard.collective.lowering import (
        EntityTable,
        lower_collectives,
        lower_pool,
        lower_storage,
        lower_transfers,
    )
    from railyard.collective.lowering.paths import shape_of
    from railyard.collective.machine import Case, CollectiveMachine, Shape, machine_of
    from railyard.collective.policy import CollectivePolicy

__all__ = [
    "ALGORITHMS",
    "NETWORK",
    "Algorithm",
    "Case",
    "Choice",
    "Choices",
    "CollectiveMachine",
    "CollectivePolicy",
    "EntityTable",
    "Pattern",
    "Schedule",
    "Send",
    "Shape",
    "Steps",
    "choose",
    "choose_many",
    "domain_switch",
    "lower_collectives",
    "lower_pool",
    "lower_storage",
    "lower_transfers",
    "machine_of",
    "shape_of",
]
