"""What variants of one study share: catalogues, clusters, requests, costs of iterations are made once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Memo:
    """Things by what they are and what they were made of."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def get(self, what: str, key: object, make: Callable[[], T]) -> T:
        """What was made before under that name and key, or what `make` gives."""
        text = f"{what} {json.dumps(key, default=str, sort_keys=True)}"
        if text not in self._made:
            self._made[text] = make()
        made: T = self._made[text]
        return made
