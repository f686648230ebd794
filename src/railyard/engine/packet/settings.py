"""The settings of a run: what the run has, and a field for every constant that a mechanism of the core has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from railyard import _core
from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.engine.packet.user.balancer import UserBalancer, balancers
from railyard.engine.packet.user.control import UserControl, controls
from railyard.engine.packet.user.loading import is_user, load

if TYPE_CHECKING:
    from railyard.engine.packet.faults import LinkFault
    from railyard.engine.packet.user.compiling import Functions
    from railyard.kit.registry import Registry

_Class = TypeVar("_Class")

_PLAIN = {"flag": bool, "integer": int, "number": float, "word": str, "list": list}

USER_KINDS: dict[str, type[UserControl] | type[UserBalancer]] = {
    "rdma_control": UserControl,
    "load_balancing": UserBalancer,
}
"""Settings that may be functions of the user's own in place of a word."""

REGISTERED: dict[str, Registry[UserControl] | Registry[UserBalancer]] = {
    "rdma_control": controls,
    "load_balancing": balancers,
}
"""Those functions by name."""


def with_constants(kind: type[_Class]) -> type[_Class]:
    """A frozen dataclass with a field for every constant of the mechanisms, before the fields of the class itself."""
    inherited = getattr(kind, "__dataclass_fields__", {})
    new = {name: one.default for name, one in CONSTANTS.items() if name not in inherited}
    for name, default in new.items():
        setattr(kind, name, default)
    kind.__annotations__ = dict.fromkeys(new, Any) | kind.__annotations__
    return dataclass(frozen=True)(kind)


@with_constants
class Settings:
    """Constants of a run by keyword: those of `railyard.engine.packet.mechanisms.CONSTANTS`, and what the run has.

    `load_balancing` may be a `UserBalancer`, `rdma_control` a `UserControl`, in place of a name, or name one that is
    registered or in a file: `user:FILE.py:NAME`.

    Attributes:
        seed: Of all random choices.
        failed_links: Links that keep only `failed_fraction` of their rate, queue and thresholds.
        faults: What happens to links in time; see `railyard.engine.packet.faults`.
        sample_links: Links that are sampled every `sample_ps`.
        sample_flows: Flows that are sampled.

    Raises:
        InputError: A value is of another kind than the constant, or out of its range.
    """

    seed: int = 0
    failed_links: tuple[int, ...] = ()
    faults: tuple[LinkFault, ...] = ()
    sample_links: tuple[int, ...] = ()
    sample_flows: tuple[int, ...] = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

        def __init__(self, **settings: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        for name, constant in CONSTANTS.items():
            value = getattr(self, name)
            if value != constant.default and not is_python(name, value):
                constant.check(value)


def is_python(name: str, value: Any) -> bool:
    """Whether a setting is functions in Python, or names them."""
    if name not in USER_KINDS or value in CONSTANTS[name].words:
        return False
    return isinstance(value, USER_KINDS[name]) or (
        isinstance(value, str) and (is_user(value) or value in REGISTERED[name])
    )


def functions_of(name: str, value: Any) -> UserControl | UserBalancer | None:
    """The functions in Python that a setting is or names; None: a mechanism of the core.

    Raises:
        InputError: The file cannot be run, or holds nothing of that name.
    """
    if not is_python(name, value):
        return None
    if not isinstance(value, str):
        found: UserControl | UserBalancer = value
        return found
    return load(value, USER_KINDS[name]) if is_user(value) else REGISTERED[name].get(value)


def core_options(settings: Settings, threads: int) -> _core.PacketOptions:
    """The settings as the core takes them.

    Raises:
        InputError: Numba is missing or cannot compile a user's function.
    """
    options = _core.PacketOptions()
    options.seed = settings.seed
    options.threads = threads
    functions = {name: functions_of(name, getattr(settings, name)) for name in USER_KINDS}
    for name, constant in CONSTANTS.items():
        value = "user" if functions.get(name) else getattr(settings, name)
        if value != constant.default:
            options.set(constant.mechanism, constant.field, value if value is None else _PLAIN[constant.kind](value))
    control, balancer = functions["rdma_control"], functions["load_balancing"]
    if isinstance(control, UserControl):
        _put(options.user_control, control)
        options.telemetry = control.wants_hops
    if balancer:
        _put(options.user_balance, balancer)
    return options


def _put(into: Any, functions: Functions) -> None:
    """Puts the addresses of a user's functions, and what a flow's own fields begin with, into the core's options."""
    for hook, address in functions.addresses().items():
        setattr(into, hook, address)
    into.set_slots(functions.slots)
