"""Writes `sbom/railyard.cdx.json`: what a wheel of Railyard holds and needs, as a CycloneDX 1.6 document.

Components, each with the version it is built and tested with: the packages it needs at run time (the closure of
`project.dependencies` in `requirements/run.txt`; what only the extra `ui` needs is optional), nanobind, whose sources
are compiled into the extension, and the npm packages whose code is in the committed bundle, with the SHA-512 that npm
checks. Tools that only build are left out.
The wheel carries the document in its `.dist-info/sboms` (PEP 770). No time and no random number are in it: the same
pins give the same bytes.

    make sbom
"""

from __future__ import annotations

import base64
import json
import sys
import tomllib
import uuid
from importlib import metadata
from pathlib import Path

import pins
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement

COMPILED_IN = "nanobind"
CLASSIFIED = {  # packages whose metadata name their licence by a classifier only
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
}
Needs = dict[str, set[str]]


def needed(name: str) -> set[str]:
    """Return the packages that an installed package needs here, without its extras."""
    asked = map(Requirement, metadata.requires(name) or ())
    return {pins.normalized(one.name) for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})}


def closure(roots: set[str]) -> Needs:
    needs: Needs = {}
    waiting = sorted(roots)
    while waiting:
        name = waiting.pop()
        if name not in needs:
            needs[name] = needed(name)
            waiting += needs[name]
    return needs


def licence(name: str) -> str:
    """Return the SPDX expression of an installed package.

    Raises:
        SystemExit: its metadata hold neither an expression nor a classifier that says one.
    """
    about = metadata.metadata(name)
    classified = [CLASSIFIED[one] for one in about.get_all("Classifier") or () if one in CLASSIFIED]
    if found := about.get("License-Expression") or next(iter(classified), None):
        return str(found)
    stated = about.get("License") or ""
    if stated in {"MIT", "Apache-2.0", "BSD-3-Clause"}:
        return stated
    raise SystemExit(f"{name}: its metadata name no licence that is known here; add it to tools/sbom.py")


def python_component(pin: pins.Pin, scope: ComponentScope) -> Component:
    linked = [Property(name="railyard:linkage", value="compiled into the extension")] if pin.name == COMPILED_IN else []
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        bom_ref=f"pypi:{pin.name}",
        scope=scope,
        purl=PackageURL("pypi", None, pin.name, pin.version),
        licenses=[LicenseFactory().make_from_string(licence(pin.name))],
        properties=linked,
    )


def bundled() -> list[Component]:
    """Return the npm packages whose code is in the bundle: all that `dependencies` reach."""
    lock = json.loads((pins.ROOT / "frontend" / "package-lock.json").read_text(encoding="utf-8"))
    return [
        npm_component(place.removeprefix("node_modules/"), row)
        for place, row in sorted(lock["packages"].items())
        if place and not row.get("dev")
    ]


def npm_component(name: str, row: dict[str, str]) -> Component:
    group, _, short = name.rpartition("/")
    algorithm, _, digest = row["integrity"].partition("-")
    if algorithm != "sha512":
        raise SystemExit(f"package-lock.json: {name} has the integrity {algorithm}, not sha512")
    return Component(
        type=ComponentType.LIBRARY,
        group=group or None,
        name=short,
        version=row["version"],
        bom_ref=f"npm:{name}",
        scope=ComponentScope.REQUIRED,
        purl=PackageURL("npm", group or None, short, row["version"]),
        licenses=[LicenseFactory().make_from_string(row["license"])],
        hashes=[HashType(alg=HashAlgorithm.SHA_512, content=base64.b64decode(digest).hex())],
        properties=[Property(name="railyard:linkage", value="bundled in web/static")],
    )


def document() -> Bom:
    project = tomllib.loads((pins.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    always = {pins.normalized(Requirement(one).name) for one in project["dependencies"]} | {COMPILED_IN}
    roots = always | {pins.normalized(Requirement(one).name) for one in project["optional-dependencies"]["ui"]}
    needs, required = closure(roots), closure(always)
    locked = {pin.name: pin for pin in pins.read(pins.LOCKS[0]).pins}
    railyard = Component(
        type=ComponentType.APPLICATION,
        name="railyard",
        version=project["version"],
        bom_ref="railyard",
        purl=PackageURL("pypi", None, "railyard", project["version"]),
        licenses=[LicenseFactory().make_from_string(project["license"])],
    )
    scopes = {name: ComponentScope.REQUIRED if name in required else ComponentScope.OPTIONAL for name in needs}
    parts = {name: python_component(locked[name], scopes[name]) for name in sorted(needs)}
    scripts = bundled()
    bom = Bom(components=[*parts.values(), *scripts], metadata=BomMetaData(component=railyard))
    bom.metadata.timestamp = None
    names = sorted(str(part.purl) for part in bom.components)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join([str(railyard.purl), *names]))
    bom.register_dependency(railyard, [*(parts[name] for name in sorted(roots)), *scripts])
    for name, wanted in needs.items():
        bom.register_dependency(parts[name], [parts[one] for one in sorted(wanted)])
    return bom


def main() -> None:
    text = make_outputter(document(), OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2) + "\n"
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"the document breaks CycloneDX's schema: {wrong}")
    pins.SBOM.parent.mkdir(exist_ok=True)
    partial = pins.SBOM.with_suffix(".tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(pins.SBOM)
    shown = pins.SBOM.relative_to(Path.cwd()) if pins.SBOM.is_relative_to(Path.cwd()) else pins.SBOM
    print(f"{shown}: {len(json.loads(text)['components'])} components, valid CycloneDX 1.6", file=sys.stderr)


if __name__ == "__main__":
    main()
