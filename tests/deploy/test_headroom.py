"""Headroom against SONiC's own reckoning: its Lua, with a database that answers what a switch's would."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from railyard import catalog
from railyard.ask.deploy.emit.intent import ASICS, EIGHT, PACKET, USUAL, asic_of, headroom

DATA = Path(__file__).parent / "data"
LUA = next((name for name in ("lua5.1", "lua5.2", "lua5.3", "lua5.4", "lua", "luajit") if shutil.which(name)), "")
LENGTHS = (1, 7, 40, 300)


def theirs(name, rate_bps, length_m, lanes):
    asic = ASICS[name]
    given = (f"MELLANOX-{name.upper()}", asic.cell_bytes, round(rate_bps / 1e6), length_m, 9216, lanes, PACKET, 100)
    command = [LUA, str(DATA / "redis.lua"), *map(str, given), str(DATA / "buffer_headroom_mellanox.lua")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(line.split(":") for line in out.split())
    return tuple(int(found[key]) for key in ("xon", "xoff", "size"))


@pytest.mark.skipif(not LUA, reason="no Lua here (Debian: lua5.1)")
@pytest.mark.parametrize("name", sorted(ASICS))
def test_ours_is_what_sonic_reckons(name):
    for rate in (25e9, 100e9, 200e9, 400e9, 800e9):
        for length in LENGTHS:
            for lanes in (4, EIGHT):
                room = headroom(rate, length, asic=ASICS[name], lanes=lanes)
                assert (room.xon, room.xoff, room.size) == theirs(name, rate, length, lanes), (rate, length, lanes)


def test_figures_are_those_of_the_chip_where_public():
    known = catalog.load()
    for box, chip in (("spectrum-3-sn4700", "Spectrum-3"), ("spectrum-6-sn6600", "Spectrum-6")):
        assert asic_of(known.switch(box)) == (ASICS[chip.lower()], chip)
    assert asic_of(known.switch("tomahawk-5")) == (USUAL, "Spectrum-4")
    assert max(headroom(800e9, 37, asic=one).xoff for one in ASICS.values()) == headroom(800e9, 37).xoff


def test_a_port_of_400_gigabit_over_30_metres():
    """By hand: 9,216 + 2 x 30 m / 198,000 km/s at 400 Gb/s + 819.2 + 905 x 64 + 120 ns at 400 Gb/s = 89,105.3 bytes in
    cells of 192 that hold 64 each: three times as much, and a packet of 4,178, is 265.2 KiB."""
    under_way = 9216 + 60 / 198e6 * 400e9 / 8 + 819.2 + 57_920 + 6000
    assert headroom(400e9, 30).xoff == 266 * 1024
    assert 265 * 1024 < 3 * under_way + PACKET <= 266 * 1024
