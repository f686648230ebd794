"""The settings of a run: what the run has, and a field for every constant that a mechanism of the core has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from railyard import _core
from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.engine.packet.user.balancer import UserBalancer
from railyard.engine.packet.user.control import UserControl
from railyard.engine.packet.user.loading import is_user

if TYPE_CHECKING:
    from railyard.engine.packet.faults import Fault
    from railyard.engine.packet.user.compiling import Functions

_Class = TypeVar("_Class")

_PLAIN = {"flag": bool, "integer": int, "number": float, "word": str, "list": list}

USER_KINDS: dict[str, type[UserControl] | type[UserBalancer]] = {
    "rdma_control": UserControl,
    "load_balancing": UserBalancer,
}
"""Settings that may be functions of the user's own in place of a word."""


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

    `load_balancing` may be a `UserBalancer`, `rdma_control` a `UserControl`, in place of a name.

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
    faults: tuple[Fault, ...] = ()
    sample_links: tuple[int, ...] = ()
    sample_flows: tuple[int, ...] = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

        def __init__(self, **settings: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        for name, constant in CONSTANTS.items():
            value = getattr(self, name)
            if value != constant.default and not _is_user(name, value):
                constant.check(value)


def _is_user(name: str, value: Any) -> bool:
    """Whether a setting is a user's functions, or names them."""
    if name not in USER_KINDS:
        return False
    return isinstance(value, USER_KINDS[name]) or (isinstance(value, str) and is_user(value))


def core_options(settings: Settings, threads: int) -> _core.PacketOptions:
    """The settings as the core takes them.

    Raises:
        InputError: Numba is missing or cannot compile a user's function.
    """
    options = _core.PacketOptions()
    options.seed = settings.seed
    options.threads = threads
    for name, constant in CONSTANTS.items():
        value = getattr(settings, name)
        if name in USER_KINDS and isinstance(value, USER_KINDS[name]):
            value = "user"
        if value != constant.default:
            options.set(constant.mechanism, constant.field, value if value is None else _PLAIN[constant.kind](value))
    if isinstance(settings.rdma_control, UserControl):
        _put(options.user_control, settings.rdma_control)
        options.telemetry = settings.rdma_control.wants_hops
    if isinstance(settings.load_balancing, UserBalancer):
        _put(options.user_balance, settings.load_balancing)
    return options


def _put(into: Any, functions: Functions) -> None:
    """Puts the addresses of a user's functions, and what a flow's own fields begin with, into the core's options."""
    for hook, address in functions.addresses().items():
        setattr(into, hook, address)
    into.set_slots(functions.slots)
