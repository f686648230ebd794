#!/usr/bin/env python3
"""Writes what CRDs ask of `spec`, with rules: `tools/crd_schemas.py KUEUE VOLCANO OUT.json`, work trees of these."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

_FILES = {
    "Topology": (0, "config/components/crd/bases/kueue.x-k8s.io_topologies.yaml", "v1beta2"),
    "ResourceFlavor": (0, "config/components/crd/bases/kueue.x-k8s.io_resourceflavors.yaml", "v1beta2"),
    "HyperNode": (1, "config/crd/volcano/bases/topology.volcano.sh_hypernodes.yaml", "v1alpha1"),
}


def without_words(schema: Any) -> Any:
    """A schema without descriptions."""
    if isinstance(schema, dict):
        return {key: without_words(one) for key, one in schema.items() if key != "description" or isinstance(one, dict)}
    return [without_words(one) for one in schema] if isinstance(schema, list) else schema


def main() -> None:
    """Reads the CRDs."""
    *checkouts, out = map(Path, sys.argv[1:])
    found = {}
    for kind, (place, name, version) in _FILES.items():
        crd = yaml.safe_load((checkouts[place] / name).read_text())
        schema = next(one for one in crd["spec"]["versions"] if one["name"] == version)["schema"]["openAPIV3Schema"]
        found[kind] = {
            "apiVersion": f"{crd['spec']['group']}/{version}",
            "spec": without_words(schema["properties"]["spec"]),
        }
    out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
