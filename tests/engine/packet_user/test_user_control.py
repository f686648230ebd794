"""Controls and balancers written in Python: equal to the built-in ones, and refused clearly when wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import railyard
from railyard.engine import packet
from railyard.engine.packet.compiling import ACK, HOP, NETWORK, SLOTS, flow_dtype, path_dtype
from railyard.engine.packet.user import UserBalancer, UserControl, load
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.graph import Record

EXAMPLE = Path(__file__).parents[3] / "examples" / "packet" / "my_control.py"
RATE_BPS = 400 * 10**9
MTU = 4160


def go(traffic: packet.Traffic, network: packet.PacketNetwork | None = None, **changed: Any) -> Record:
    base: dict[str, Any] = {
        "transport": "rdma",
        "load_balancing": "ecmp",
        "trim": False,
        "mtu_bytes": MTU,
        "queue_packets": 20_000,
        "ecn_low_packets": 20,
        "ecn_high_packets": 100,
        "rdma_notification": "packet",
    }
    made = network or packet.crossbar(traffic.hosts, rate_bps=RATE_BPS)
    return packet.run(made, traffic, packet.Settings(**{**base, **changed}))


def example(name: str, kind: type[Any] = UserControl) -> Any:
    return load(f"user:{EXAMPLE}:{name}", kind)


def incast(senders: int, size_bytes: int = 500_000) -> packet.Traffic:
    return packet.Traffic.of(senders + 1, np.arange(1, senders + 1), 0, size_bytes)


@pytest.mark.parametrize(("senders", "byte_counter"), [(2, 10_000_000), (8, 300_000)])
def test_dcqcn_in_python_is_the_built_in_one_bit_for_bit(
    senders: int, byte_counter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = incast(senders, 2_000_000)
    own = example("Dcqcn")
    monkeypatch.setitem(own.functions["on_sent"].__globals__, "BYTE_COUNTER", byte_counter)
    built_in = go(traffic, rdma_control="dcqcn", dcqcn_byte_counter=byte_counter)
    users = go(traffic, rdma_control=own)
    assert built_in.meta["packets"]["cnps"] > 0
    assert users.digest() == built_in.digest()
    assert users.meta["events"] == built_in.meta["events"]
    assert built_in.digest() != go(traffic, rdma_control="line-rate").digest()


def test_the_records_are_laid_out_as_in_the_core() -> None:
    """The sizes that the core asserts; every field has 64 bits, but for two of telemetry."""
    state = {"one": 1.0, "two": 2}
    assert flow_dtype(state).itemsize == 8 * (3 + SLOTS)
    assert path_dtype(state).itemsize == 8 * SLOTS
    assert (ACK.itemsize, NETWORK.itemsize, HOP.itemsize) == (72, 72, 24)
    assert flow_dtype(state).fields is not None
    assert flow_dtype({f"f{at}": 0.0 for at in range(SLOTS)}).itemsize == 8 * (3 + SLOTS)


class Seen:
    """Writes down what it was told, then shows it by its rate."""

    state = {"acks": 0, "fresh": 0, "last_ps": 0, "hops": 0, "sent": 0, "queue": 0}  # noqa: RUF012

    def on_open(flow, now_ps, network):
        flow.window_bytes = (network.mtu_bytes - network.header_bytes) * 4

    def on_ack(flow, ack, hops, network):
        flow.acks += 1
        flow.fresh += ack.fresh_bytes
        if ack.now_ps <= flow.last_ps or ack.rtt_ps < 4_000_000 or ack.sequence > ack.next_sequence:
            flow.window_bytes = -1
        if ack.hops != 1 or hops[0].rate_mbps != 400_000 or hops[0].time_ps >= ack.now_ps:
            flow.window_bytes = -2
        if flow.fresh > flow.sent or ack.in_flight_bytes >= flow.window_bytes:
            flow.window_bytes = -3
        if network.rate_bps != 400e9 or network.hops != 2:
            flow.window_bytes = -4
        flow.last_ps = ack.now_ps

    def on_sent(flow, size_bytes, now_ps, network):
        flow.sent += size_bytes


def test_functions_are_told_the_truth() -> None:
    found = go(incast(1, 400_000), rdma_control=packet.control(Seen))
    assert found.ended.all()
    # Four packets a round trip of more than 4 us: no more than that.
    packets = -(-400_000 // (MTU - 64))
    assert found.duration_ps[0] > (packets / 4 - 1) * 4_000_000


def test_a_window_of_ones_own_bounds_what_is_in_flight() -> None:
    found = go(incast(8), rdma_control=example("Halving"), queue_packets=100_000)
    assert found.ended.all()
    line = go(incast(8), rdma_control="line-rate")
    assert found.meta["packets"]["marked"] < line.meta["packets"]["marked"]


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    network = packet.leaf_spine(32, leaf_hosts=8, spines=4, rate_bps=RATE_BPS)
    traffic = packet.Traffic.of(32, np.arange(32), (np.arange(32) + 8) % 32, 400_000)
    own = example("StickyPaths", UserBalancer)
    runs = [go(traffic, network, load_balancing=own, rdma_out_of_order=True, seed=seed).digest() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_a_balancer_of_ones_own_spreads_flows() -> None:
    network = packet.leaf_spine(32, leaf_hosts=8, spines=8, rate_bps=RATE_BPS)
    traffic = packet.Traffic.of(32, np.arange(32), (np.arange(32) + 8) % 32, 1_000_000)
    times = {
        name: go(traffic, network, load_balancing=balancer, rdma_out_of_order=True).duration_ps.mean()
        for name, balancer in (
            ("ecmp", "ecmp"),
            ("sticky", example("StickyPaths", UserBalancer)),
            ("shortest", example("ShortestQueue", UserBalancer)),
        )
    }
    assert times["shortest"] < times["ecmp"]
    assert times["sticky"] < times["ecmp"]


def test_it_works_over_ultra_ethernet_too() -> None:
    network = packet.leaf_spine(32, leaf_hosts=8, spines=8, rate_bps=RATE_BPS)
    traffic = packet.Traffic.of(32, np.arange(32), (np.arange(32) + 8) % 32, 400_000)
    settings = packet.Settings(load_balancing=example("ShortestQueue", UserBalancer))
    assert packet.run(network, traffic, settings).ended.all()


def made(**functions: Any) -> type:
    return type("Mine", (), functions)


def sets_rate(flow, now_ps, network):
    flow.rate_bps = 0.0 / network.hops


def raises(flow, now_ps, network):
    raise ValueError("never again")


def no_such_field(flow, now_ps, network):
    flow.speed = 1.0


def no_such_function(flow, now_ps, network):
    flow.rate_bps = len(open("x"))  # noqa: SIM115,PTH123


@pytest.mark.parametrize(
    ("function", "said"),
    [(sets_rate, "the user's on_open set rate_bps to 0.0"), (raises, "the user's on_open raised an error")],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_nonsense_ends_the_run_with_its_name(function: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        go(incast(2), rdma_control=packet.control(made(on_open=function)))


def test_a_timer_that_stands_still_is_refused() -> None:
    def on_open(flow, now_ps, network):
        flow.timer_ps = now_ps + 1_000_000

    def on_timer(flow, now_ps, network):
        flow.rate_bps = network.rate_bps

    with pytest.raises(InputError, match="on_timer left timer_ps"):
        go(incast(2), rdma_control=packet.control(made(on_open=on_open, on_timer=on_timer)))


def test_without_numba_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(InputError, match=r"railyard\[numba\]"):
        go(incast(2), rdma_control=packet.control(made(on_open=sets_rate)))


def test_a_compiled_function_is_taken_as_it_is() -> None:
    import numba

    @numba.cfunc(packet.signature("on_cnp", {"cuts": 0}))
    def on_cnp(flow, now_ps, network):
        seen = numba.carray(flow, 1)[0]
        seen.cuts += 1
        seen.rate_bps = max(seen.rate_bps / 2, 1e9)
        return 1

    found = go(incast(4), rdma_control=packet.control(made(state={"cuts": 0}, on_cnp=on_cnp)))
    assert found.ended.all()
    assert found.digest() != go(incast(4), rdma_control="line-rate").digest()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [("x = (\n", 1, "the file is not Python"), ("x = 1\ny = 1 / 0\n", 2, "ZeroDivisionError")],
)
def test_a_file_that_does_not_run_is_named_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        load(f"user:{file}:Mine", UserControl)
    assert caught.value.problems[0].line == line


def test_a_scenario_runs_no_python_that_it_names(tmp_path: Path) -> None:
    """Somebody else may have written it; Python of one's own is registered by a name, through RAILYARD_PLUGINS."""
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "s.yaml").write_text(
        "name: s\nengine: packet\ncluster: {accelerators: 16, server: hgx-h100, back_end: {fabric: roce}}\n"
        "workload: {training: {model: llama-3.2-1b, global_batch: 16, sequence: 2048, parallelism: {tp: 2}}}\n"
        f"packet:\n  set:\n    congestion_control: user:{tmp_path}/own.py:Own\n"
    )
    with pytest.raises(InputError, match="runs no Python") as refused:
        railyard.run(tmp_path / "s.yaml")
    assert "packet.set.congestion_control" in str(refused.value)
    assert "s.yaml:7" in str(refused.value)
    assert not (tmp_path / "ran").exists()
