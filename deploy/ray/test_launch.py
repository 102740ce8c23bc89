"""Runs the launcher on a real Ray cluster of four nodes, each with a loopback address of its own.

    SOBENCH=target/debug/sobench python -m pytest deploy/ray

The whole path is run with sobench itself, against its own `serve`; what the launcher does where shards fail, with a
stand-in.
"""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

HERE = Path(__file__).resolve().parent
SOBENCH = os.environ["SOBENCH"]
NODES = 4
RUN_TIMEOUT_S = 600
STORE_BYTES = 80 << 20
"""The least that Ray takes, so that logs of the stand-in do not fit into it at once."""

STAND_IN = f"""#!{sys.executable}
import os, signal, sys, time
from pathlib import Path
here, (shard, typed) = Path(__file__).parent, (os.environ.get("SOBENCH_SHARD"), sys.argv[1:])
if typed[0] == "merge":
    print("merged", len(typed) - 3)
    sys.exit(0)
log = Path(typed[typed.index("--run-log") + 1])
with log.open("w") as file:
    file.write("x" * 30_000_000 + shard)
def end(*_):
    with log.open("a") as file:
        file.write(" told to end")
    sys.exit(130)
signal.signal(signal.SIGTERM, end)
(here / f"began-{{shard[0]}}").touch()
if shard == "2/3" and "--fail" in typed:
    while len(list(here.glob("began-*"))) < 3:
        time.sleep(0.01)
    sys.exit("error: this one fails")
if "--wait" in typed:
    time.sleep({RUN_TIMEOUT_S})
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    def node(number: int) -> dict[str, Any]:
        return {"num_cpus": 2, "object_store_memory": STORE_BYTES, "node_ip_address": f"127.0.0.{number + 2}"}

    cluster: Any = Cluster(initialize_head=True, head_node_args={**node(0), "include_dashboard": False})
    for number in range(1, NODES):
        cluster.add_node(**node(number))
    yield cluster
    cluster.shutdown()


@pytest.fixture
def launch(cluster: Any, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Begins the launcher on the cluster, its results in `results`."""

    def begin(program: str | Path, *typed: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(HERE / "launch.py"), "--address", cluster.address, "--sobench", str(program)]
        environment = {**os.environ, "NO_PROXY": "127.0.0.1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.Popen(
            [*command, "--results", str(tmp_path / "results"), *typed],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    path = tmp_path / "stand-in"
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return path


@pytest.fixture
def server() -> Iterator[str]:
    with subprocess.Popen([SOBENCH, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        found = re.search(r"http://\S+", served.stderr.readline())
        assert found
        yield found[0]
        served.send_signal(signal.SIGINT)
        served.communicate(timeout=60)


def asked(log: Path) -> list[tuple[str, ...]]:
    """Of every request of a run log: which case, how constrained, and when it was due, from the begin."""
    told = subprocess.run([SOBENCH, "report", log, "--format", "csv"], check=True, capture_output=True, text=True).stdout
    return [(row["index"], row["case"], row["arm"], row["due_s"]) for row in csv.DictReader(told.splitlines())]


def test_a_shard_on_every_node_makes_the_run_of_one_client(
    launch: Callable[..., subprocess.Popen[str]], server: str, tmp_path: Path
) -> None:
    run = ["--base-url", server, "--dataset", "json", "--num-prompts", "80", "--request-rate", "40", "--seed", "7"]
    launcher = launch(SOBENCH, "--ship", "--", *run)
    said, err = launcher.communicate(timeout=RUN_TIMEOUT_S)
    assert launcher.returncode == 0, err
    assert sorted(re.findall(r"shard \d/\d: \S+ \((\S+)\)", said)) == [f"127.0.0.{number + 2}" for number in range(NODES)]
    assert "Successful requests:                     80 " in said
    one = tmp_path / "one.jsonl"
    subprocess.run([SOBENCH, *run, "--run-log", one], check=True, capture_output=True)
    merged = asked(tmp_path / "results/run.jsonl")
    assert len(merged) == 80
    assert merged == asked(one)


def test_one_shard_that_fails_ends_the_others(
    launch: Callable[..., subprocess.Popen[str]], stand_in: Path, tmp_path: Path
) -> None:
    launcher = launch(stand_in, "--shards", "3", "--", "--fail", "--wait")
    said, err = launcher.communicate(timeout=RUN_TIMEOUT_S)
    assert launcher.returncode == 1, err
    assert "shard 2/3 ended with 1:\nerror: this one fails\n" in err
    assert err.index("shard 2/3") < err.index("shard 1/3 ended with 130"), "the cause comes first"
    ends = [(tmp_path / f"results/shard-{number}.jsonl").read_text()[30_000_000:] for number in (1, 2, 3)]
    assert ends == ["1/3 told to end", "2/3", "3/3 told to end"], "logs come whole, also of those that were ended"
    assert "merged 3\n" in said


def test_an_interrupt_ends_all_and_brings_what_there_is(
    launch: Callable[..., subprocess.Popen[str]], stand_in: Path, tmp_path: Path
) -> None:
    launcher = launch(stand_in, "--shards", "2", "--", "--wait")
    wait_for(lambda: len(list(tmp_path.glob("began-*"))) == 2, launcher)
    launcher.send_signal(signal.SIGINT)
    said, err = launcher.communicate(timeout=RUN_TIMEOUT_S)
    assert launcher.returncode == 130, err
    assert (tmp_path / "results/shard-2.jsonl").read_text().endswith("2/2 told to end")
    assert "merged 2\n" in said


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--shards", str(NODES + 1)], f"{NODES + 1} shards, and {NODES} nodes with 2 cores"),
        (["--cpus", "64"], "0 shards, and 0 nodes with 64 cores"),
        (["--", "--shard=1/2"], "the launcher itself gives --shard"),
    ],
)
def test_what_cannot_be_is_refused(
    launch: Callable[..., subprocess.Popen[str]], stand_in: Path, typed: list[str], words: str
) -> None:
    launcher = launch(stand_in, *typed)
    _, err = launcher.communicate(timeout=RUN_TIMEOUT_S)
    assert launcher.returncode == 2, err
    assert words in err
    assert "\nhint: " in err


# Last, since Ray counts a lost node among the living for half a minute.
def test_a_node_that_is_lost_is_named(
    cluster: Any, launch: Callable[..., subprocess.Popen[str]], stand_in: Path, tmp_path: Path
) -> None:
    extra = cluster.add_node(num_cpus=3, object_store_memory=STORE_BYTES, node_ip_address="127.0.0.9")
    launcher = launch(stand_in, "--shards", "1", "--cpus", "3", "--", "--wait")
    wait_for(lambda: (tmp_path / "began-1").exists(), launcher)
    cluster.remove_node(extra, allow_graceful=False)
    _, err = launcher.communicate(timeout=RUN_TIMEOUT_S)
    assert launcher.returncode == 3, err
    assert "shard 1/1 was lost" in err
    assert "error: no merge: shard-1.jsonl missing\nhint: " in err


def wait_for(is_so: Callable[[], bool], launcher: subprocess.Popen[str]) -> None:
    while not is_so():
        assert launcher.poll() is None, launcher.communicate()
        time.sleep(0.05)
