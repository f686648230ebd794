"""Linux's choice among equal next hops, as counters of ports showed it (Linux 6.18, seed 12345, two next hops)."""

import numpy as np

from railyard.engine.lab.wiring import hashes, jenkins, siphash, source_port, taken

SEEN = "0010110001000000010000"
"""The next hop of TCP from 10.0.0.1 to 10.0.0.2 port 5000, from source ports 20014, 20021, and so on."""


def test_hops_are_those_that_the_kernel_took():
    ports = 20014 + 7 * np.arange(len(SEEN))
    found = taken(hashes("10.0.0.1", "10.0.0.2", ports, 5000, 12345), 2)
    assert "".join(map(str, found.tolist())) == SEEN


def test_both_directions_are_hashed_alike():
    one = hashes("10.0.0.9", "10.0.0.2", np.array([31000]), 5003, 7)
    assert hashes("10.0.0.2", "10.0.0.9", np.array([5003]), 31000, 7).tolist() == one.tolist()


def test_siphash_is_that_of_its_authors():
    # INDOCRYPT 2012, appendix A, has key 00..0f and 15 bytes; ours has equal halves: the reference program gives this
    words = np.array([[0x0706050403020100, 0x0F0E0D0C0B0A0908]], np.uint64)
    assert int(siphash(words, 16, 0x0706050403020100)[0]) == _reference(bytes(range(16)), 0x0706050403020100)


def _reference(data, key):
    """SipHash-2-4 by its definition, in plain integers."""
    mask = (1 << 64) - 1

    def turned(value, bits):
        return ((value << bits) | (value >> (64 - bits))) & mask

    v = [key ^ one for one in (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)]

    def mixed():
        for a, b, c, d, first, second in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
            v[a] = (v[a] + v[b]) & mask
            v[c] = (v[c] + v[d]) & mask
            v[b], v[d] = turned(v[b], first) ^ v[a], turned(v[d], second) ^ v[c]
            v[a] = turned(v[a], 32)

    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)] + [len(data) << 56]
    for word in words:
        v[3] ^= word
        mixed()
        mixed()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        mixed()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_jenkins_spreads_over_31_bits():
    found = jenkins(np.arange(4096, dtype=np.uint64)) >> np.uint64(1)
    assert len(set(found.tolist())) > 4090
    assert 0.45 < float((found >> np.uint64(30)).mean()) < 0.55


def test_three_hops_have_a_third_each():
    third = (1 << 31) // 3
    assert taken(np.array([0, third, third + 1, 2 * third, 2 * third + 2, (1 << 31) - 1]), 3).tolist() == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]


def test_a_source_port_takes_the_wanted_hop_at_every_switch():
    choices = [(11, 4, 2), (12, 4, 0), (13, 3, 1)]
    port = source_port("10.0.0.1", "10.0.0.7", 5006, choices, {10_000})
    for seed, width, wanted in choices:
        assert taken(hashes("10.0.0.1", "10.0.0.7", np.array([port]), 5006, seed), width).tolist() == [wanted]
    again = source_port("10.0.0.1", "10.0.0.7", 5006, choices, {port})
    assert again > port
