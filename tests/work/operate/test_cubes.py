"""Jobs on the cubes of a torus: any cubes with optical circuit switches, blocks of neighbours with fixed fibre."""

import numpy as np
import pytest

from railyard.cluster.ocs import slices_kept
from railyard.kit.errors import InputError
from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.prepare import prepare
from railyard.work.scenario.load import expand, from_values

HOST = 0.995
REPAIR_H = 4.0


def prepared(ocs, accelerators=4096, placement="cubes", **section):
    cluster = {"accelerators": accelerators, "server": "tpu-v5p-host", "ocs": ocs}
    given = {"jobs": {"synthetic": {"count": 4}}, "placement": placement, **section}
    draft = from_values({"name": "pod", "cluster": cluster, "workload": {"operate": given}})
    return prepare(expand(draft)[0])


def placed(ocs, broken, nodes):
    tree = prepared(ocs).tree
    free = FreeNodes(tree)
    free.out(np.array(broken, np.int32))
    found = policies.get("cubes").place(PlacementRequest(nodes, 4), free)
    return None if found is None else sorted({int(node) // 16 for node in found})


def test_any_cubes_or_neighbours():
    """Cubes are numbered along x, y, z of a grid of 4 x 4 x 4; a broken host takes its cube out of large slices."""
    broken = [0, 16, 32, 48]
    assert placed({}, broken, 4 * 16) == [4, 5, 6, 7]
    assert placed({}, [0, 80], 3 * 16) == [1, 2, 3]
    assert placed({"wiring": "static"}, [0, 80], 2 * 16) == [1, 17]  # two along z
    columns = [16 * cube for cube in (0, 2, 8, 10)]  # one in each block of 2 x 2 x 4
    assert placed({"wiring": "static"}, columns, 16 * 16) is None
    assert placed({"wiring": "static"}, columns[1:], 16 * 16) == [
        z * 16 + y * 4 + x for z in range(4) for y in (0, 1) for x in (0, 1)
    ]
    assert placed({}, columns, 16 * 16) == [cube for cube in range(20) if cube not in (0, 2, 8, 10)]
    assert placed({}, broken, 15) == [0]  # the tightest cube that still has 15 hosts


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("wiring", ["switched", "static"])
def test_a_year_of_faults_meets_the_closed_form(wiring, size):
    """How many of the slices that would fill the pod run in 97 % of all hours: the closed form, give or take one."""
    rate = (1 - HOST) / HOST / (REPAIR_H / 24) * 1000
    mode = {"name": "host", "per_1000_node_days": rate, "repair": f"{REPAIR_H} h", "repair_p90": f"{REPAIR_H} h"}
    drawn = {"count": 64 // size, "load": 100.0, "sizes": {str(64 * size): 1.0}, "median": "1000 d", "p90": "1001 d"}
    run = prepared(
        {"wiring": wiring, "relink": "0 s"},
        jobs={"synthetic": drawn},
        failures={"profile": "none", "modes": [{**mode, "detect": "1 s"}]},
        recovery={"interval": "10 min", "state": "1 kB", "restart": "1 s"},
        queue={"backfill": "any"},
        until="150 d",
    ).operation()
    assert run.run()
    series = run.ledger.columns("series")
    running = series["running"][series["time_us"] > 40 * 86_400e6]
    promised = slices_kept(64, size, HOST**16, 0.97, switched=wiring == "switched")
    assert abs(int(np.quantile(running, 0.03, method="lower")) - promised) <= 1


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"placement": "first-fit"}, "workload.operate.placement"),
        ({"recovery": {"spares": 4}}, "workload.operate.recovery.spares"),
        ({"recovery": {"elastic": True}}, "workload.operate.recovery.elastic"),
        ({"ocs": None}, "workload.operate.placement"),
    ],
)
def test_refusals(given, key):
    with pytest.raises(InputError) as refused:
        prepared(given.pop("ocs", {}), **given)
    assert refused.value.problems[0].key == key
