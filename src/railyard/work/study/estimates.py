"""What of a model's shape was estimated, so that predictions of it rest on no measurement: a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.catalog import Model


def estimates(model: Model) -> Iterator[str]:
    """What to know before figures of a model are believed.

    Args:
        model: Of the catalogue, or read from its publisher's file.
    """
    if model.assumed:
        yield f"{model.name}: its file does not say it all, and these were assumed: {model.assumed}"
    if model.recurrent:
        count = sum(kind.layers for kind in model.kinds if kind.mixer == "recurrent")
        yield (
            f"the scans and states of the {count} {model.recurrent.kind} layers of {model.name} were estimated from"
            " FLOPs and bytes, not fitted: no recurrence was measured, and the bands of model error do not cover them"
        )
    origin = model.provenance.get("side_parameters")
    if origin is not None and origin.confidence == "estimated":
        yield (
            f"{model.name}: what joins a tower of its kind to the language model was estimated; its weights are held in"
            " memory, and the time of images or sound is not counted"
        )
