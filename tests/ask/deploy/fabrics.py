"""Fabrics as `ibnetdiscover` prints them, with faults put in at known places."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Drawn:
    """A fabric: cables as [device, port, device, port, rate]."""

    kinds: dict[str, str] = field(default_factory=dict)
    cables: list[list] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)

    def port(self, device: str) -> int:
        self.used[device] = self.used.get(device, 0) + 1
        return self.used[device]

    def join(self, one: str, other: str, times: int = 1, rate: str = "4xNDR") -> None:
        for _ in range(times):
            self.cables.append([one, self.port(one), other, self.port(other), rate])

    def between(self, one: str, other: str) -> list[int]:
        return [at for at, cable in enumerate(self.cables) if cable and {cable[0], cable[2]} == {one, other}]

    def pull(self, at: int) -> tuple[str, str]:
        """Takes a cable away; returns its ends."""
        a, p, b, q, _ = self.cables[at]
        self.cables[at] = []
        return f"{a}[{p}]", f"{b}[{q}]"

    def swap(self, one: int, other: int) -> None:
        """Exchanges the upper ends of two cables."""
        first, second = self.cables[one], self.cables[other]
        first[2:4], second[2:4] = second[2:4], first[2:4]

    def text(self) -> str:
        ports = {name: [] for name in self.kinds}
        for cable in self.cables:
            if cable:
                a, p, b, q, rate = cable
                ports[a].append((p, b, q, rate))
                ports[b].append((q, a, p, rate))
        key = {
            name: f"{'S' if kind == 'Switch' else 'H'}-{at:016x}" for at, (name, kind) in enumerate(self.kinds.items())
        }
        lines = []
        for name, kind in self.kinds.items():
            if kind == "Ca" and not ports[name]:
                continue
            lines.append(
                f'{kind}\t{max(self.used.get(name, 1), 1)} "{key[name]}"\t\t# "{name}" base port 0 lid 1 lmc 0'
            )
            lines += [f'[{p}]\t"{key[b]}"[{q}] \t\t# "{b}" lid 1 {rate}' for p, b, q, rate in sorted(ports[name])]
            lines.append("")
        return "\n".join(lines)


def leaf_spine(leafs: int, spines: int, hosts: int, trunk: int = 1, rails: int = 1) -> Drawn:
    """Host h of a group of rails has its port r on leaf `group * rails + r`."""
    drawn = Drawn({f"spine{s}": "Switch" for s in range(spines)} | {f"leaf{leaf}": "Switch" for leaf in range(leafs)})
    number = 0
    for group in range(leafs // rails):
        for _ in range(hosts):
            for rail in range(rails):
                name = f"node{number:04d}" + (f" mlx5_{rail}" if rails > 1 else "")
                drawn.kinds[name] = "Ca"
                drawn.join(name, f"leaf{group * rails + rail}")
            number += 1
    for leaf in range(leafs):
        for spine in range(spines):
            drawn.join(f"leaf{leaf}", f"spine{spine}", trunk)
    return drawn


def three_tier(pods: int, leafs: int, spines: int, cores: int, *, hosts: int, trunk: int = 1) -> Drawn:
    """Spine s of every pod is joined to the cores of group s."""
    drawn = Drawn({f"core{s}-{c}": "Switch" for s in range(spines) for c in range(cores)})
    number = 0
    for pod in range(pods):
        drawn.kinds |= {f"spine{pod}-{s}": "Switch" for s in range(spines)}
        drawn.kinds |= {f"leaf{pod}-{leaf}": "Switch" for leaf in range(leafs)}
        for leaf in range(leafs):
            for _ in range(hosts):
                drawn.kinds[f"node{number:04d}"] = "Ca"
                drawn.join(f"node{number:04d}", f"leaf{pod}-{leaf}")
                number += 1
            for spine in range(spines):
                drawn.join(f"leaf{pod}-{leaf}", f"spine{pod}-{spine}", trunk)
        for spine in range(spines):
            for core in range(cores):
                drawn.join(f"spine{pod}-{spine}", f"core{spine}-{core}", trunk)
    return drawn
