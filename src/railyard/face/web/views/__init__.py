"""What the page draws of runs and clusters: a function with `@view`, and its route in `routes/views.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    View = Callable[[dict[str, Any]], Any]

views: Registry[View] = Registry("view", package="railyard.face.web.views")
view = views.register
