from pathlib import Path

import numpy as np
import pytest

from railyard.kit.errors import InputError
from railyard.work.operate import trace
from railyard.work.operate.jobs import DrawnKind, drawn

from .yard import tree

WEEK = Path(__file__).parents[2] / "examples" / "operate" / "philly_week.csv"


def read(tmp_path, text, name="auto", nodes=4, **how):
    file = tmp_path / "trace.csv"
    file.write_text(text)
    return trace.job_table(trace.read(file, name), tree(nodes), **how)


def test_philly():
    found = trace.read(WEEK)
    assert (found.format, len(found.rows)) == ("philly", 3871)
    jobs = trace.job_table(found, tree(32), most_nodes=lambda _: 32)
    assert jobs.submit_us[0] == 0
    assert int(jobs.line.min()) == 2
    assert len(jobs.tenants) == 11
    assert set(jobs.each.tolist()) <= {1, 2, 4, 8}
    wide = jobs.accelerators > 8
    assert (jobs.each[wide] == 8).all()
    days = trace.job_table(found, tree(32), start_s=86_400, length_s=86_400, faster=2.0)
    assert 300 < len(days) < 700
    assert days.submit_us.max() <= 43_200e6


def test_sacct(tmp_path):
    text = (
        "JobID|Submit|Elapsed|Timelimit|NNodes|ReqTRES|Account|Priority\n"
        "1|2024-01-01T00:00:00|1-02:03:04|2-00:00:00|2|cpu=2,gres/gpu:h100=16,node=2|ml|7\n"
        "1.batch|2024-01-01T00:00:00|1-02:03:04||2|gres/gpu=16||\n"
        "2|2024-01-01T00:01:00|05:00|UNLIMITED|1|cpu=4|cpu|1\n"
        "3|2024-01-01T00:01:30|05:00|UNLIMITED|3|gres/gpu=12|hpc|1\n"
    )
    jobs = read(tmp_path, text)
    assert jobs.name == ("1", "3")
    assert jobs.submit_us.tolist() == [0, 90_000_000]
    assert jobs.work_us.tolist() == [(26 * 3600 + 184) * 10**6, 300 * 10**6]
    assert jobs.limit_us.tolist() == [172_800 * 10**6, -1]
    assert jobs.nodes.tolist() == [2, 3]
    assert jobs.each.tolist() == [8, 4]
    assert jobs.priority.tolist() == [7, 1]


def test_tiresias_and_alibaba(tmp_path):
    text = "job_id,num_gpu,submit_time,model_name,duration\n0,1,5,vgg19,164\n1,16,0,vgg11,9\n"
    jobs = read(tmp_path, text)
    assert jobs.name == ("1", "0")
    assert jobs.classes == ("opaque", "vgg11", "vgg19")
    assert jobs.nodes.tolist() == [2, 1]
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "a,1,1,1,500,,LS,Running,100,160,\nb,1,1,0,0,,BE,Running,100,160,\nc,1,1,2,1000,,BE,Running,130,,\n"
    )
    jobs = read(tmp_path, pods)
    assert jobs.name == ("a",)
    assert jobs.work_us.tolist() == [60_000_000]


def test_a_table_of_ones_own(tmp_path):
    text = (
        "job,submit_s,duration_s,accelerators,tenant,after,least_accelerators,class\n"
        "a,0,10,16,x,,8,big\nb,1,10,3,y,a,,\nc,2,10,12,y,a b,,\n"
    )
    jobs = read(tmp_path, text)
    assert jobs.nodes.tolist() == [2, 1, 2]
    assert jobs.each.tolist() == [8, 3, 8]
    assert jobs.least_nodes.tolist() == [1, 1, 2]
    assert jobs.after.tolist() == [0, 0, 1]
    assert jobs.classes == ("opaque", "big")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("submit_s,duration_s,accelerators\n0,-5,1\n", 2, "a time is a number from 0 on"),
        ("submit_s,duration_s,accelerators\n0,5,1\n0,,1\n", 3, "expected a number"),
        ("submit_s,duration_s,accelerators\n0,5,0\n", 2, "at least one accelerator"),
        ("submit_s,duration_s,accelerators\n0,5\n", 2, "as many cells as the heading"),
        ("submit_s,duration_s,accelerators\n0,5,nan\n", 2, "expected a number"),
        ("submit_s,duration_s,accelerators\n0,5,1.5\n", 2, "whole number"),
        ("submit_s,duration_s,accelerators\n0,5,99999999999\n", 2, "whole number"),
        ("submit_s,duration_s,accelerators\n0,1e300,8\n", 2, "a time is a number from 0 on"),
        ("submit_s,duration_s,accelerators,limit_s\n0,5,8,1e300\n", 2, "a limit is a number of seconds"),
        ("submit_s,duration_s,accelerators\n0,5,33\n", 2, "larger than the cluster"),
        ("job,submit_s,duration_s,accelerators,after\na,0,5,1,b\nb,0,5,1,a\n", 2, "go in a circle: `a` waits for `b`"),
        ("job,submit_s,duration_s,accelerators,after\nab,0,5,1,\nb,0,5,1,aa\n", 3, "waits for `aa`"),
        ("job,submit_s,duration_s,accelerators\na,0,5,1\na,0,5,1\n", 3, "two jobs are called `a`"),
        ("timestamp,duration,num_gpus,cluster\n2017-13-01,5,1,a\n", 2, "expected a date"),
        ("JobID|Submit|Elapsed|NNodes|ReqTRES\n1|2024-01-01|x|1|gres/gpu=1\n", 2, "as Slurm writes it"),
        ("submit,duration\n1,2\n", 1, "no known format"),
        ("", None, "empty"),
        ("submit_s,duration_s,accelerators\n", None, "no job"),
    ],
)
def test_wrong_traces_are_refused_by_line(tmp_path, text, line, words):
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, text)
    assert caught.value.problems[0].line == line
    assert "trace.csv" in str(caught.value.problems[0].file)


def test_many_faults_in_one_error(tmp_path):
    rows = "".join("0,-5,1\n" for _ in range(40))
    with pytest.raises(InputError) as caught:
        read(tmp_path, "submit_s,duration_s,accelerators\n" + rows)
    assert len(caught.value.problems) == 10


def test_formats_are_documented():
    for name, record in trace.trace_formats.items():
        assert record.name == name
        assert record.summary
        assert record.source


def test_drawn_jobs_have_their_load_and_seed():
    kinds = [DrawnKind(sizes={1: 0.5, 8: 0.4, 16: 0.1}, median_s=600, p90_s=6000)]
    how = {"kinds": kinds, "count": 4000, "load": 0.7}
    jobs = drawn(tree(), **how, tenants=("a", "b", "c"), seed=7)
    assert (jobs.accelerators * jobs.work_us).sum() / 32 / jobs.submit_us[-1] == pytest.approx(0.7, rel=1e-6)
    assert np.median(jobs.work_us) / 1e6 == pytest.approx(600, rel=0.08)
    assert np.percentile(jobs.work_us, 90) / 1e6 == pytest.approx(6000, rel=0.12)
    assert np.mean(jobs.accelerators == 16) == pytest.approx(0.1, abs=0.02)
    again = drawn(tree(), **how, tenants=("a", "b", "c"), seed=7)
    assert np.array_equal(jobs.submit_us, again.submit_us)
    assert not np.array_equal(jobs.submit_us, drawn(tree(), **how, tenants=("a", "b", "c"), seed=8).submit_us)


def test_serving_jobs_are_read_and_refused_by_line(tmp_path):
    file = tmp_path / "jobs.csv"
    head = "submit_s,duration_s,accelerators,replica_accelerators,load\n"
    file.write_text(head + "0,10,32,16,0.8\n1,10,8,,\n")
    found = trace.job_table(trace.read(file), tree(32))
    assert found.replica.tolist() == [2, 0]
    assert found.load_ppm.tolist() == [800_000, 0]
    for row, words in (("0,10,32,16,", "and a `load`"), ("0,10,32,12,0.5", "whole replicas"), ("0,9,8,8,1.5", "load")):
        file.write_text(f"{head}1,10,8,,\n{row}\n")
        with pytest.raises(InputError, match=words) as caught:
            trace.read(file)
        assert caught.value.problems[0].line == 3
