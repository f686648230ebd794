"""Holds objects to CRDs as the API server does: the schema, and the rules in CEL, which cel-python evaluates."""

import json
from functools import cache
from pathlib import Path

import celpy
import jsonschema

CRDS = json.loads((Path(__file__).parent / "data" / "crds.json").read_text())
_ENVIRONMENT = celpy.Environment()


@cache
def program(rule):
    return _ENVIRONMENT.program(_ENVIRONMENT.compile(rule))


def strict(schema):
    """The schema as the API server prunes by it: what it does not name is an error here."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(one) for key, one in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found["additionalProperties"] = False
    return found


def broken_rules(schema, value):
    """Messages of the rules that do not hold of a value, or of what is in it; it was the same before the change."""
    found = []
    if isinstance(value, list):
        found += [words for one in value for words in broken_rules(schema.get("items", {}), one)]
    elif isinstance(value, dict):
        for key, one in value.items():
            found += broken_rules(schema.get("properties", {}).get(key, {}), one)
    names = celpy.json_to_cel({"self": value, "oldSelf": value})
    for rule in schema.get("x-kubernetes-validations", ()):
        if not program(rule["rule"]).evaluate(names):
            found.append(rule["message"])
    return found


def accepted(document):
    """Fails where the API server would refuse an object."""
    crd = CRDS[document["kind"]]
    assert document["apiVersion"] == crd["apiVersion"]
    jsonschema.validate(document["spec"], strict(crd["spec"]))
    assert not broken_rules(crd["spec"], document["spec"])
