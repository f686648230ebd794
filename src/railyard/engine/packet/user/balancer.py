"""A load balancer in Python: which path a flow's next packet takes, and what is learnt from what comes back."""

from __future__ import annotations

from dataclasses import dataclass

from railyard.engine.packet.mechanisms import names_of
from railyard.engine.packet.user.compiling import Functions
from railyard.engine.packet.user.control import functions_of, summary_of
from railyard.engine.packet.user.records import BALANCER_HOOKS, check_state
from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

GOOD, MARKED, TRIMMED, TIMEOUT = range(4)
"""What came back over the path of an entropy."""


@dataclass(frozen=True, eq=False)
class UserBalancer(Functions):
    """A load balancer that a user wrote. `Settings(load_balancing=...)` of the packet engine takes it."""


balancers: Registry[UserBalancer] = Registry("load balancer", taken=names_of("load_balancing"))
"""Load balancers in Python by the name that settings call them."""


def balancer(given: type) -> UserBalancer:
    """Makes a class of functions a load balancer.

    The class has a `state` like a control's and any of these functions, none of which takes `self`:

    - `next_entropy(path, now_ps, random, paths)`: the entropy (0 to 65535) of the flow's next packet; switches hash
      it. `random` is a fresh 63-bit number of this flow, the same in every run with the same seed, `paths` the setting.
    - `feedback(path, entropy, what, now_ps)`: what came back: `GOOD`, `MARKED`, `TRIMMED` or `TIMEOUT`.
    - `choose(ports, random, now_ps)`: in a switch, the row of the egress that a data packet leaves by.

    Raises:
        InputError: The class does not fit; with file and line.
    """
    if not isinstance(given, type):
        raise InputError("`balancer` decorates a class", found=type(given).__name__)
    functions = functions_of(given, BALANCER_HOOKS, "load balancer")
    if "feedback" in functions and "next_entropy" not in functions:
        raise InputError("`feedback` has no effect without `next_entropy`", key=given.__name__, found="feedback")
    return UserBalancer(
        name=given.__name__,
        summary=summary_of(given),
        state=check_state(vars(given).get("state", {}), given.__name__),
        functions=functions,
    )
