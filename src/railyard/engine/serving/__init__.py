"""Serving, request by request: replicas with continuous batching and paged KV cache, routers, transfers, tiers."""

from __future__ import annotations

from railyard.engine.serving.deployment import (
    Autoscale,
    Cost,
    CrossTraffic,
    Deployment,
    Links,
    Outages,
    Pool,
    Router,
    Speculative,
    Store,
    Transfers,
    rolling_update,
)
from railyard.engine.serving.running import STATUS, Chunk, RequestColumns, simulate, stream

__all__ = [
    "STATUS",
    "Autoscale",
    "Chunk",
    "Cost",
    "CrossTraffic",
    "Deployment",
    "Links",
    "Outages",
    "Pool",
    "RequestColumns",
    "Router",
    "Speculative",
    "Store",
    "Transfers",
    "rolling_update",
    "simulate",
    "stream",
]
