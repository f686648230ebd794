"""Which partition a definition of `partitions.conf` is of: points seen of OpenSM 3.3 over ibsim."""

import pytest

from railyard.ask.check.isolation.judged import read_partitions

HEAD = "Default=0x7fff, ipoib : ALL=limited, SELF=full;\nblue=0x1 : 0x5=full;\n"


@pytest.mark.parametrize(
    ("tail", "keys"),
    [
        ("blue : 0xf=full;", {1}),
        ("blue=0x0 : 0xf=full;", {1}),
        ("more : ALL;\nmore : 0xf=full;", {2}),
        ("more=0x0 : ALL;\nmore=0x0 : 0xf=full;", {2}),
        ("more : ALL;\nMore : 0xf=full;", {3}),
        ("more=0x0 : ALL;\nmore=0x9 : 0x5=full;\nmore : 0xf=full;", {2}),
        ("Default=0x0 : 0xf=full;", {0x7FFF}),
        ("Default=0x5 : 0xf=full;\nDefault : 0xf=full;", {5}),
        ("default : 0xf=full;", {2}),
        ("more=0x8003 : 0xf=full;", {3}),
    ],
)
def test_a_name_without_a_key_is_the_partition_of_that_name(tail, keys):
    found = read_partitions("partitions.conf", HEAD + tail + "\n")
    assert {key for key, members in found.items() if "0xf" in members and members["0xf"].full} == keys
