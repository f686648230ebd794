"""Names from outside stay names: in tables, drawings, pages and documents."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.deploy.emit import folder, netbox, tables
from railyard.ask.deploy.emit.labs import infragraph
from railyard.cluster.network_table import DIALECTS

from .scenarios import draft, planned

NASTY = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ['"><script>alert(1)</script>', "a,b\nc", "=cmd()", "x'; drop", "]]>", "&amp;", "leaf[0:9].port", "\\\\"]
    ),
).filter(lambda text: text.strip() and "\x00" not in text)


@pytest.fixture(scope="module")
def plan():
    one = draft(256, "leaf-spine", "roce", front_end={"topology": "leaf-spine"})
    return planned(one.with_values({"cluster.back_end.patch_panels": "switches"}, "a test"))


def called(plan, box, tier):
    """The plan with a box and a medium that somebody else named."""
    boxes = plan.devices.box.copy()
    boxes[plan.devices.level > 0] = box
    devices = dataclasses.replace(plan.devices, box=boxes)
    tiers = tuple(dataclasses.replace(one, medium=tier) for one in plan.tiers)
    return dataclasses.replace(plan, devices=devices, tiers=tiers)


@settings(max_examples=60, deadline=None)
@given(NASTY, NASTY, NASTY)
def test_whatever_boxes_and_media_are_called(plan, box, medium, title):
    tables.cables.cache_clear()
    tables.devices.cache_clear()
    one = called(plan, box, medium)
    document = json.loads(infragraph(one, title))
    names = [row["name"] for key in ("devices", "instances", "links") for row in document[key]]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in (document["name"], *names))
    assert len(set(names)) == len(names)
    for drawing in (folder.hall(one), folder.elevation(one)):
        assert "script" not in {element.tag.rsplit("}", 1)[-1] for element in ET.fromstring(drawing).iter()}
    assert "<script" not in folder.page(one, title, "sonic")
    for _, frame in netbox.files(one, DIALECTS["sonic"]):
        text = frame.write_csv()
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert len(rows) == len(frame) + 1
        assert {len(row) for row in rows} == {len(frame.columns)}
    tables.cables.cache_clear()
    tables.devices.cache_clear()


@settings(max_examples=30, deadline=None)
@given(st.lists(NASTY, min_size=1, max_size=4))
def test_whatever_devices_are_called_drawings_are_drawings(plan, names):
    renamed = list(plan.devices.name)
    renamed[: len(names)] = names
    one = dataclasses.replace(plan, devices=dataclasses.replace(plan.devices, name=renamed))
    drawing = ET.fromstring(
        re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "?", folder.elevation(one))
    )
    tags = {element.tag.rsplit("}", 1)[-1] for element in drawing.iter()}
    assert tags <= {"svg", "text", "rect", "tspan"}
    assert np.isfinite(one.racks.power_w).all()
