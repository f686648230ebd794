"""Cubes of a torus, joined by optical circuit switches or by fixed fibre.

A cube is a small torus in one rack, wired by copper. Its faces end in fibres: one for every accelerator of a face.
Optical circuit switches join the faces of any cubes to one larger torus; fixed fibre joins each cube to its neighbours.
The switches know no packets: a torus of theirs has the links and the rates of one that is wired.

    cube 0 --- +x face --.               every face position has a switch of its own, to which both
    cube 0 --- -x face --| switch        faces of every cube of a pod lead: three axes of 4 x 4
    cube 1 --- +x face --| 0 of x        positions are 48 switches of 2 fibres a cube
       ...              -'

Source: Jouppi et al., ISCA 2023 (TPU v4: 64 cubes of 4 x 4 x 4, 96 fibres a cube, 48 switches of 128 ports).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from railyard.cluster.healthy import at_least
from railyard.cluster.topology.torus import near_cube
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.catalog import Cable, Catalog, OpticalSwitch
    from railyard.cluster.hardware import Hardware
    from railyard.cluster.spec import OcsSpec

AXES = 3
FIBRE = "fibre-duplex"


@dataclass(frozen=True)
class Cubes:
    """The cubes of a cluster.

    Attributes:
        size: Accelerators of a cube.
        grid: Cubes of a pod along each axis; pods are tori that no fibre joins.
        pods: Number of pods.
        switch: The optical circuit switch; None for fixed fibre.
        optic: Optical module at the end of each fibre.
        dead_ps: How long a slice waits for its light paths when it starts; 0 for fixed fibre.
    """

    size: int
    grid: tuple[int, ...]
    pods: int
    switch: OpticalSwitch | None
    optic: Cable
    dead_ps: int

    @property
    def per_pod(self) -> int:
        """Cubes of a pod."""
        return prod(self.grid)

    @property
    def count(self) -> int:
        """Cubes of all pods."""
        return self.per_pod * self.pods

    @property
    def fibres(self) -> int:
        """Fibres that leave a cube: one for every accelerator of each of its faces."""
        return sum(2 * self.size // edge for edge in near_cube(self.size, AXES))

    @property
    def switches(self) -> int:
        """Optical circuit switches of all pods, one for each position on a face and axis."""
        if self.switch is None:
            return 0
        return self.pods * self.fibres // 2

    def block(self, cubes: int) -> tuple[int, ...]:
        """Cubes along each axis of the block of neighbours that holds so many cubes with fixed fibre.

        Of the blocks that divide the grid the smallest, and of those the one nearest to a cube.
        """
        axes = [[edge for edge in range(1, size + 1) if size % edge == 0] for size in self.grid]
        shapes = ((x, y, z) for x in axes[0] for y in axes[1] for z in axes[2] if x * y * z >= cubes)
        return min(shapes, key=lambda shape: (prod(shape), sum(shape), shape), default=self.grid)

    def blocks(self, cubes: int) -> Iterator[list[int]]:
        """The blocks of neighbours for slices of so many cubes: the numbers of their cubes, pod by pod.

        Cubes are numbered along the first axis, then the second, then the third.
        """
        shape, grid = self.block(cubes), self.grid
        corners = (
            (x, y, z)
            for z in range(0, grid[2], shape[2])
            for y in range(0, grid[1], shape[1])
            for x in range(0, grid[0], shape[0])
        )
        every = [
            [
                x + dx + grid[0] * (y + dy + grid[1] * (z + dz))
                for dz in range(shape[2])
                for dy in range(shape[1])
                for dx in range(shape[0])
            ]
            for x, y, z in corners
        ]
        for pod in range(self.pods):
            yield from ([pod * self.per_pod + cube for cube in block] for block in every)


def cubes_of(spec: OcsSpec, hardware: Hardware, catalog: Catalog) -> Cubes:
    """The cubes of a cluster's torus.

    Raises:
        InputError: Scale-up is no torus, cubes do not fill it, or the switch has too few ports or loses too much light.
    """
    torus = hardware.scale_up
    if torus.kind != "torus":
        raise InputError(
            f"cubes are parts of a scale-up torus, and {hardware.accelerator.name} is {torus.kind}",
            key="ocs",
            hint="choose a server whose accelerators form a torus, such as tpu-v5p-host",
        )
    if torus.domain % spec.cube or spec.cube % hardware.per_server or torus.domain // spec.cube < 2:
        raise InputError(
            f"cubes of {spec.cube} accelerators do not fill a torus of {torus.domain} in servers of"
            f" {hardware.per_server}",
            key="ocs.cube",
            found=spec.cube,
            allowed="at least two cubes, each of whole servers",
        )
    optic = _optic(catalog, torus.rate_bps / max(hardware.accelerator.scale_up_links, 1))
    grid = near_cube(torus.domain // spec.cube, AXES)
    if spec.wiring == "static":
        return Cubes(spec.cube, grid, torus.domains, None, optic, 0)
    try:
        switch = catalog.optical_switch(spec.switch)
    except InputError as error:
        raise error.located(key="ocs.switch") from None
    _check(switch, optic, prod(grid), catalog)
    return Cubes(spec.cube, grid, torus.domains, switch, optic, switch.switching_ps + spec.relink_ps)


def _check(switch: OpticalSwitch, optic: Cable, cubes: int, catalog: Catalog) -> None:
    if switch.usable_ports < 2 * cubes:
        every = [catalog.optical_switch(name) for name in catalog.names("optical-switches")]
        raise InputError(
            f"{switch.name} has {switch.usable_ports} ports, and both faces of {cubes} cubes lead to each switch",
            key="ocs.switch",
            found=switch.name,
            allowed=[one.name for one in every if one.usable_ports >= 2 * cubes] or f"{2 * cubes} ports or more",
        )
    if switch.loss_db > optic.budget_db:
        raise InputError(
            f"{switch.name} loses {switch.loss_db:g} dB, and {optic.name} allows {optic.budget_db:g} dB",
            key="ocs.switch",
            found=switch.name,
        )


def _optic(catalog: Catalog, link_bps: float) -> Cable:
    """The cheapest module for the rate of a link that needs one fibre a direction (FR4 class)."""
    every = (catalog.cable(name) for name in catalog.names("cables"))
    fit = [one for one in every if one.kind == "optic" and one.rate_bps >= link_bps and one.fibre == FIBRE]
    if not fit:
        raise InputError(f"no optical module carries {link_bps / 1e9:g} Gb/s over one fibre", key="ocs")
    return min(fit, key=lambda one: (one.rate_bps, one.price_usd.typical))


def slices_kept(cubes: int, size: int, up: float, confidence: float, *, switched: bool) -> int:
    """How many slices of `size` cubes can be promised at once, at a confidence.

    Switched: any healthy cubes form a slice; k cubes are healthy with the confidence. Static: all cubes of a fixed
    block must be healthy. Both count binomially: cubes fail independently.

    Args:
        cubes: Cubes of a pod.
        size: Cubes of a slice, a divisor of `cubes`.
        up: Share of the time in which a cube is healthy.
        confidence: Share of the time in which the promise holds.
        switched: Whether optical circuit switches join the cubes.
    """
    if switched:
        return at_least(cubes, up, confidence) // size
    return at_least(cubes // size, up**size, confidence)
