"""What stands between an accelerator's memory and its NIC's port; every figure is worked out by hand from an HGX H100.

Eight NICs of 400 Gb/s, PCIe of 504 Gb/s an accelerator, host memory of 4,915.2 Gb/s, 960 Gb/s one way between sockets.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.host_path import HostSpec, host_path
from railyard.kit.errors import InputError

KNOWN = catalog.load()
SERVER = KNOWN.server("hgx-h100")
OWN = np.arange(8)[:, None]
SWAPPED = (1, 1, 1, 1, 0, 0, 0, 0)


def path(spec=None, nics_of=OWN, nics=8, **server):
    changed = dataclasses.replace(SERVER, **server)
    return host_path(changed, nics_of, np.full(nics, 400e9), spec or HostSpec())


def test_a_server_as_sold_bounds_nothing():
    found = path()
    assert found.rate_bps.tolist() == [400e9] * 8
    assert not found.latency_ps.any()
    assert found.remarks == ()


def test_all_nics_at_the_other_socket_share_the_link_between_sockets():
    # Towards each socket: what four NICs there send for the other's accelerators, and what four receive for its own.
    found = path(nic_numa=SWAPPED)
    assert found.rate_bps == pytest.approx([960e9 / 8] * 8)
    assert found.latency_ps.tolist() == [2_300_000] * 8
    assert found.remarks == (
        "the link between sockets bounds a NIC at 120 of 400 Gb/s while all NICs of a server send and receive",
    )


def test_nics_of_one_socket_serve_its_accelerators_in_full():
    found = path(nic_numa=(0,) * 8)
    assert found.rate_bps == pytest.approx([400e9] * 4 + [960e9 / 4] * 4)
    assert found.latency_ps.tolist() == [0] * 4 + [2_300_000] * 4


def test_from_device_to_device_across_sockets_is_slower_still():
    found = path(HostSpec(gpudirect="on"), nic_numa=SWAPPED)
    assert found.rate_bps == pytest.approx([176e9 / 8] * 8)
    assert found.latency_ps.tolist() == [300_000] * 8


def test_without_gpudirect_every_byte_is_written_to_host_memory_and_read_again():
    found = path(HostSpec(gpudirect="off"))
    assert found.rate_bps == pytest.approx([4915.2e9 / (8 * 2 * 2)] * 8)
    assert path(HostSpec(gpudirect="off"), host_memory_bps=1e14).rate_bps == pytest.approx([504e9 / 2] * 8)


def test_tcp_copies_once_more_and_takes_cores():
    found = path(HostSpec(transport="tcp"))
    assert found.rate_bps == pytest.approx([4915.2e9 / (8 * 2 * 4)] * 8)
    assert found.cores == pytest.approx(8 * 4 * 76.8 / 84)
    assert found.latency_ps.tolist() == [7_000_000] * 8
    assert path(HostSpec(transport="tcp", tcp_cores=2)).rate_bps == pytest.approx([42e9] * 8)


def test_a_nic_that_two_accelerators_share_may_be_half_away():
    shared = np.repeat(np.arange(4), 2)[:, None]
    found = path(None, shared, 4, accelerator_numa=(0, 0, 0, 1, 1, 1, 1, 1), nic_numa=(0, 0, 1, 1), socket_bps=100e9)
    assert found.rate_bps == pytest.approx([400e9, 100e9 / (0.5 + 0), 400e9, 400e9])


def test_links_of_nics_have_the_rate_and_latency_of_their_path():
    spec = NetworkSpec(fabric=FabricSpec("infiniband"), link_rate_bps=200e9)
    one_socket = {"server": {"nic_numa": (0,) * 8}}
    plain, bound = (build(ClusterSpec(32, "hgx-h100", spec, overrides=more), KNOWN) for more in ({}, one_socket))
    ports = bound.back_end.port_of_rank[:8, 0]
    out = np.array([int(bound.back_end.port_links(int(port))[0][0]) for port in ports])
    assert bound.links.rate_bps[out] == pytest.approx(plain.links.rate_bps[out])  # 240 of the host, 200 of the link
    assert (bound.links.latency_ps - plain.links.latency_ps)[out].tolist() == [0] * 4 + [2_300_000] * 4


def test_a_bounce_buffer_bounds_what_leaves_an_accelerator():
    """Confidential computing: 4 GB/s an H100 by the catalogue, 6 as given; without a figure none is made up."""

    def rate(server, **host):
        network = NetworkSpec(host=HostSpec("bounce", **host))
        return build(ClusterSpec(16, server, network), catalog.load()).plans["back_end"].host

    assert rate("hgx-h100").rate_bps.tolist() == [32e9] * 8
    assert rate("hgx-h100", bounce_bps=48e9).rate_bps.tolist() == [48e9] * 8
    assert "the encrypted bounce buffer bounds a NIC at 32 of 400 Gb/s" in rate("hgx-h100").remarks[0]
    assert (rate("hgx-h100").latency_ps >= 2_000_000).all()  # it goes through host memory
    with pytest.raises(InputError, match="no rate of an encrypted bounce buffer is published for b200"):
        rate("hgx-b200")
    with pytest.raises(InputError, match="a bounce buffer is confidential computing's"):
        HostSpec("off", bounce_bps=32e9)
