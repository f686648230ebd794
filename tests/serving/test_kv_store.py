"""A store of keys and values on the memory pool: its rate is that of its links, and what cannot be is refused."""

from __future__ import annotations

import pytest

from railyard.work.scenario import load
from railyard.work.study.study import prepare


def job(pool, capacity="1 TB", accelerators=16):
    """A variant whose replicas read a store there."""
    requests = {"synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 64, "output": 2, "system": 8000, "count": 4}}
    serving = {
        "model": "llama-3.1-8b",
        "requests": requests,
        "pools": {"both": {"replicas": accelerators // 8, "tp": 8}},
        "cache": {"store": {"capacity": capacity, "place": "memory_pool"}},
    }
    machine = {"accelerators": accelerators, "server": "hgx-h100", "memory_pool": pool}
    (found,) = prepare(load.from_values({"cluster": machine, "workload": {"serving": serving}}))
    return found


def rates(found):
    """Bytes a second of reads and writes of the first replica, alone."""
    links = found.deployment.links
    out = []
    for ends in (links.from_replica == -1, links.to_replica == -1):
        number = int(ends.nonzero()[0][0])
        span = slice(links.ptr[number], links.ptr[number + 1])
        out.append(float((links.rate_bps[links.link[span]] / links.share[span]).min()) / 8)
    return out


def test_a_replica_reads_and_writes_at_the_rate_of_its_links():
    """A box of 60 GB/s out and 30 in; a switch pool behind the server's x16 port of 63."""
    assert rates(job({"name": "cmm-b"})) == pytest.approx([60e9, 30e9])
    assert rates(job({"name": "cxl2-switch-pool"})) == pytest.approx([63e9, 63e9])
