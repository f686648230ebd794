"""A bound on memory (`ulimit -v`): too small a one is refused at once, and what meets it ends with one message."""

from __future__ import annotations

import sys

from railyard.kit.errors import InputError

LEAST_BYTES = 1_100_000_000
"""Of address space, in which a scenario of 16 accelerators runs on two cores (measured; most of it is the stacks and
arenas that threads of libraries reserve and never touch)."""

SIGNS = ("failed to spawn thread", "can't start new thread", "not enough memory", "Cannot allocate memory")
"""What libraries say that get no memory and raise errors of their own."""

WORDS = "the memory ran out"
HINT = "let it have more (`ulimit -v`, a container's limit), or ask for less: fewer accelerators, requests or variants"


def prepare() -> None:
    """Refuses a bound in which nothing runs, and makes libraries that abort end as other endings do.

    Raises:
        InputError: The bound is too small.
    """
    limit = bound()
    if limit is None:
        return
    if limit < LEAST_BYTES:
        raise InputError(
            "this process may have too little memory to begin with",
            key="ulimit -v",
            found=f"{limit / 1e9:.2f} GB",
            allowed=f"{LEAST_BYTES / 1e9:.2f} GB and more",
        )
    from railyard import _core

    _core.end_on_abort(f"error: {WORDS}\n\nhint: {HINT}\n", 1)


def bound() -> int | None:
    """Bytes of address space that this process may have, None where there is no bound."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit
