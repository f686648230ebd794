"""Rules, dashboard and expected values, judged by a real Prometheus: an alert fires on a simulated fault."""

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest

from railyard.ask.observe import live as metrics
from railyard.ask.observe.expected import Drift, expected_s
from railyard.ask.observe.live import MetricsServer, Prometheus, busbw_gbs, expected_gbs, openmetrics, page
from railyard.ask.observe.watch import calibrated, dashboard, exposition, learn, rules
from railyard.cluster.fault.kinds import DegradeLink
from railyard.engine.flow import FLOW
from railyard.face.cli import guard
from railyard.graph import Job
from railyard.kit.errors import InputError
from railyard.work.scenario.load import from_values
from railyard.work.study.study import prepare

CLUSTER = {
    "accelerators": 32,
    "server": "hgx-h100",
    "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 8, "spines": 4}, "fabric": "infiniband"},
}
TRAINING = {
    "model": "llama-3.2-1b",
    "tokens": "1 T",
    "global_batch": 32,
    "sequence": 2048,
    "parallelism": {"tp": 8, "pp": 1, "micro_batch": 1},
}


@pytest.fixture(scope="module")
def runs():
    """A step as it should be, and one with a NIC of rank 3's rail at 30 %."""
    job = prepare(from_values({"name": "live", "cluster": CLUSTER, "workload": {"training": TRAINING}}))[0]
    graph = job.graphs.of(job.training, job.cluster)
    slow = DegradeLink(factor=0.3, cable="server 1 nic 3 - leaf 1")
    return (
        job.cluster,
        FLOW.simulate([Job(graph)], job.cluster),
        FLOW.simulate([Job(graph)], job.cluster, faults=[slow]),
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [("512-513MB", 512 << 20), ("1-2KB", 1024), ("7B", 7), ("3 GB", 3 << 30), ("many", None), ("5-6XB", None)],
)
def test_ranges_of_sizes(text, size):
    assert metrics.size_of(text) == size


def test_ranges_come_back():
    for size in (1, 1023, 1024, 5 << 20, (5 << 20) + 77, 3 << 40):
        assert metrics.size_of(metrics.range_of(size)) <= size < 2 * metrics.size_of(metrics.range_of(size)) + 1


def test_busbw_of_a_run_by_hand(runs):
    """2 x 3 / 4 x size / time for the all-reduces of four ranks; the slow NIC's group alone is slower."""
    _, healthy, faulty = runs
    usual, slow = busbw_gbs(healthy, 8), busbw_gbs(faulty, 8)
    assert set(usual) == set(slow)
    ratio = {dict(key)["comm_name"]: slow[key] / usual[key] for key in usual if dict(key)["nranks"] == "4"}
    assert sum(value < 0.8 for value in ratio.values()) == 1
    assert {dict(key)["n_nodes"] for key in usual if dict(key)["nranks"] == "4"} == {"4"}
    assert min(ratio.values()) == pytest.approx(0.3, abs=0.1)
    assert all("comm_name" not in dict(key) for key in expected_gbs(healthy, 8))


def test_labels_are_escaped_and_the_dashboard_is_json():
    assert metrics.line("a", {"b": 'x"\\\n'}, 1.5, 2) == 'a{b="x\\"\\\\\\n"} 1.5 2.000'
    panels = json.loads(dashboard())["panels"]
    assert metrics.RATIO in {panel["targets"][0]["expr"] for panel in panels}
    assert exposition({("AllReduce", "1-2MB", "8", "1"): 300.25}).splitlines()[-1].endswith(" 300.25")


def test_what_is_no_prometheus_is_refused(capsys):
    with pytest.raises(InputError, match="address"):
        Prometheus("localhost:9090")
    assert guard.run(["watch", "--prometheus", "http://127.0.0.1:9", "--once"]) == 2
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["http://", "http://[::1", "http://\x1b[31m", "http://localhost:1/\n", "http://localhost:x"]
)
def test_addresses_that_are_none_are_refused(capsys, url):
    assert guard.run(["watch", "--prometheus", url, "--once"]) == 2
    assert "--prometheus" in capsys.readouterr().err


@pytest.mark.parametrize(
    "answer",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 100_000,
        b'HTTP/1.0 200 OK\r\n\r\n{"status": "success", "data": {"result": [{"metric": {}, "value": [0, "x"]}]}}',
        b'HTTP/1.0 200 OK\r\n\r\n{"status": "success", "data": {"result": [{"value": [0, "1"]}]}}',
        b'HTTP/1.0 200 OK\r\n\r\n{"status": "success", "data": {"result": [5]}}',
    ],
)
def test_a_server_that_is_no_prometheus_is_named(capsys, answer):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer_once, args=(listening, answer))
        thread.start()
        code = guard.run(["watch", "--prometheus", f"http://127.0.0.1:{listening.getsockname()[1]}", "--once"])
        thread.join()
    assert code == 2
    assert "Prometheus" in capsys.readouterr().err


def answer_once(listening, answer):
    connection, _ = listening.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(answer)


def program(name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


def test_promtool_takes_the_rules_and_alerts_fire_when_they_should(tmp_path):
    """Below 80 % for 2 minutes, symbol errors, a GPU's XID; nothing from a port that only waits a little."""
    promtool = program("promtool")
    (tmp_path / "rules.yml").write_text(rules(), encoding="utf-8")
    labels = 'collective="AllReduce",message_size="1-2MB",nranks="4",n_nodes="4"'
    port = 'instance="n1",device="mlx5_0",port="1"'
    series = {
        f'{metrics.BUSBW_METRIC}{{{labels},comm_name="dp 1"}}': "100x3 70x20",
        f'{metrics.BUSBW_METRIC}{{{labels},comm_name="dp 2"}}': "100x23",
        f"{metrics.EXPECTED}{{{labels}}}": "100x23",
        f"{metrics.SYMBOL_ERRORS}{{{port}}}": "0+600x23",
        f"{metrics.TRANSMIT_WAIT}{{{port}}}": "0+60000x23",
        f'{metrics.XID}{{Hostname="n2",gpu="5"}}': "0x5 79x18",
    }
    expected = {"4m": [], "8m": [{"comm_name": "dp 1"}]}
    below = [
        {
            "eval_time": at,
            "alertname": "NcclBelowModel",
            "exp_alerts": [
                {
                    "exp_labels": {
                        "severity": "ticket",
                        "collective": "AllReduce",
                        "message_size": "1-2MB",
                        "nranks": "4",
                        "n_nodes": "4",
                        **labels_of,
                    },
                    "exp_annotations": {
                        "summary": "AllReduce of dp 1: 70% of the model",
                        "action": "railyard diagnose on the job's record with --cluster: all ranks of a ring are slow"
                        " together",
                    },
                }
                for labels_of in those
            ],
        }
        for at, those in expected.items()
    ]
    quiet = [{"eval_time": "10m", "alertname": "PortWaits", "exp_alerts": []}]
    one = [{"labels": "{}", "value": 1}]
    count = [
        {"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})', "eval_time": "10m", "exp_samples": one}
        for name in ("PortSymbolErrors", "GpuXid")
    ]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [*below, *quiet],
                "promql_expr_test": count,
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(test), encoding="utf-8")
    for command in (["check", "rules", "rules.yml"], ["test", "rules", "test.yml"]):
        done = subprocess.run([promtool, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def server(tmp_path, runs):
    """A Prometheus that holds half an hour of a healthy cluster and ten minutes of one with a slow NIC."""
    prometheus, promtool = program("prometheus"), program("promtool")
    now = time.time()
    lines = openmetrics(*runs[1:], runs[0], start_s=now - 2400, fault_s=now - 600, end_s=now, every_s=30)
    (tmp_path / "run.om").write_text("\n".join(lines) + "\n", encoding="utf-8")
    load = [promtool, "tsdb", "create-blocks-from", "openmetrics", "run.om", "data"]
    done = subprocess.run(load, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "rules.yml").write_text(rules(hold="0s", every="1s"), encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text("rule_files: [rules.yml]\nglobal: {evaluation_interval: 1s}\n", "utf-8")
    port = free_port()
    command = [prometheus, "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    process = subprocess.Popen(
        [*command, f"--web.listen-address=127.0.0.1:{port}"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield SimpleNamespace(url=f"http://127.0.0.1:{port}", folder=tmp_path)
    process.kill()
    process.wait()


def test_an_alert_fires_on_a_simulated_fault(server, capsys):
    """Of the eight groups that all-reduce over a rail the one with the slow NIC is out, and no other."""
    prometheus = Prometheus(server.url)
    fired: set[str] = set()
    for _ in range(150):
        try:
            fired = {one["labels"]["comm_name"] for one in prometheus.alerts() if one["state"] == "firing"}
        except InputError:
            fired = set()
        if fired:
            break
        time.sleep(0.2)
    assert len(fired) == 1
    assert len(prometheus.query(f"{metrics.RATIO} < 0.8")) >= 1
    cluster = server.folder / "cluster.json"
    cluster.write_text(json.dumps({"cluster": CLUSTER}), encoding="utf-8")
    out = server.folder / "out"
    arguments = ["watch", "--prometheus", server.url, "--once", "--cluster", str(cluster), "--out", str(out), "--json"]
    assert guard.run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["collectives"][0]["communicator"] in fired
    assert {one["alert"] for one in found["alerts"]} == {"NcclBelowModel"}
    assert metrics.EXPECTED in (out / "railyard-expected.prom").read_text(encoding="utf-8")
    assert (out / "railyard-rules.yml").read_text(encoding="utf-8") == rules()
    assert guard.run(["watch", "--prometheus", server.url, "--once"]) == 0
    assert "firing: NcclBelowModel" in capsys.readouterr().out


def test_a_prometheus_scrapes_what_is_expected(tmp_path):
    """Expected values, those with learned constants, and the error of the hour, at a port of this machine alone."""
    prometheus = program("prometheus")
    key, drift = ("AllReduce", "1-2MB", "8", "2"), Drift()
    rows = [
        {
            "collective": key[0],
            "message_size": key[1],
            "nranks": key[2],
            "n_nodes": "2",
            "expected_gbs": 200.0,
            "busbw_gbs": 160.0,
        }
    ]
    for minute in range(60):
        learn(drift, rows, 1e9 + 60 * minute)
    learned = calibrated({key: 200.0}, drift)
    assert learned[key] == pytest.approx(160, rel=0.02)
    exporter = MetricsServer(0)
    exporter.show(page({key: 200.0}, learned, drift))
    scrape = {
        "job_name": "railyard",
        "scrape_interval": "1s",
        "static_configs": [{"targets": [exporter.url.split("/")[2]]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}), encoding="utf-8")
    port = free_port()
    process = subprocess.Popen(
        [prometheus, "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        mine = f'{{instance="{exporter.url.split("/")[2]}"}}'  # another server may have taken the port that was free
        found = scraped(Prometheus(f"http://127.0.0.1:{port}"), metrics.EXPECTED + mine)
        assert [(one.labels["message_size"], one.value) for one in found] == [("1-2MB", 200.0)]
        server = Prometheus(f"http://127.0.0.1:{port}")
        assert server.query(metrics.CALIBRATED + mine)[0].value == pytest.approx(learned[key])
        assert server.query(metrics.FACTOR + mine)[0].labels["class"] == "AllReduce 8 over 2"
        assert {one.labels["of"] for one in server.query(metrics.MAPE + mine)} == {"model", "calibrated"}
    finally:
        process.kill()
        process.wait()
        exporter.close()


def scraped(server, name):
    for _ in range(150):
        try:
            if found := server.query(name):
                return found
        except InputError:
            pass
        time.sleep(0.2)
    return []


@pytest.mark.parametrize("where", ["x", "70000", "-1", "1.2", "127.0.0.1:", "9" * 30])
def test_ports_that_are_none_are_refused(tmp_path, capsys, where):
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"cluster": CLUSTER}), encoding="utf-8")
    arguments = [
        "watch",
        "--prometheus",
        "http://127.0.0.1:9",
        "--once",
        "--cluster",
        str(cluster),
        f"--export={where}",
    ]
    assert guard.run(arguments) == 2
    assert "--export" in capsys.readouterr().err


def test_an_exporter_needs_a_cluster_and_a_free_port(tmp_path, capsys):
    assert guard.run(["watch", "--prometheus", "http://127.0.0.1:9", "--once", "--export=0"]) == 2
    assert "--cluster" in capsys.readouterr().err
    exporter = MetricsServer(0)
    with pytest.raises(InputError, match="cannot listen"):
        MetricsServer(exporter.port)
    with urllib.request.urlopen(exporter.url, timeout=5) as answer:
        assert answer.read() == b"# EOF\n"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(exporter.url.replace("/metrics", "/etc/passwd"), timeout=5)
    exporter.close()


def test_ranks_on_as_many_hosts_are_slower_than_on_one(runs):
    """Four accelerators of one host have NVLink, four of four hosts have a NIC each."""
    cluster = runs[0]
    near, far = expected_s(cluster, "all_reduce", 1 << 28, 4, 1), expected_s(cluster, "all_reduce", 1 << 28, 4, 4)
    assert near == expected_s(cluster, "all_reduce", 1 << 28, 4)
    assert far > 3 * near
    assert expected_s(cluster, "all_reduce", 1 << 28, 4, 3) is None
    assert expected_s(cluster, "all_reduce", 1 << 28, 32, 16) is None
