"""Collectives, transfers and storage traffic as demands on the links of a cluster, many at once."""

from railyard.collective.lowering.collectives import lower_collectives
from railyard.collective.lowering.storage import lower_pool, lower_storage
from railyard.collective.lowering.table import EntityTable, lower_transfers

__all__ = ["EntityTable", "lower_collectives", "lower_pool", "lower_storage", "lower_transfers"]
