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
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

import launch as launcher_module

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
    print("merged", *sorted(Path(word).name for word in typed[1:typed.index("--save")]))
    sys.exit(0)
log = Path(typed[typed.index("--run-log") + 1])
with log.open("w") as file:
    file.write("x" * 30_000_000 + shard)
def end(*_):
    with log.open("a") as file:
        file.write(" told to end")
    sys.exit(130)
signal.signal(signal.SIGTERM, end)
print("at work", file=sys.stderr, flush=True)
(here / f"began-{{shard[0]}}.new").write_text(str(os.getppid()))
(here / f"began-{{shard[0]}}.new").rename(here / f"began-{{shard[0]}}")
if shard == "2/3" and "--fail" in typed:
    while len(list(here.glob("began-?"))) < 3:
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
    assert "shard 2/3 ended with 1:\nat work\nerror: this one fails\n" in err
    assert err.index("shard 2/3 ended") < err.index("shard 1/3 ended with 130"), "the cause comes first"
    ends = [(tmp_path / f"results/shard-{number}.jsonl").read_text()[30_000_000:] for number in (1, 2, 3)]
    assert ends == ["1/3 told to end", "2/3", "3/3 told to end"], "logs come whole, also of those that were ended"
    assert "merged shard-1.jsonl shard-2.jsonl shard-3.jsonl\n" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_and_brings_what_there_is(
    launch: Callable[..., subprocess.Popen[str]], stand_in: Path, tmp_path: Path, number: signal.Signals
) -> None:
    launcher = launch(stand_in, "--shards", "2", "--", "--wait")
    assert launcher.stderr is not None
    awaited = {"shard 1/2: at work\n", "shard 2/2: at work\n"}
    while awaited:
        line = launcher.stderr.readline()
        assert line, "stderr of the shards is printed while they run"
        awaited.discard(line)
    launcher.send_signal(number)
    said, err = launcher.communicate(timeout=RUN_TIMEOUT_S)
    assert launcher.returncode == 130, err
    ends = [(tmp_path / f"results/shard-{number}.jsonl").read_text()[30_000_000:] for number in (1, 2)]
    assert ends == ["1/2 told to end", "2/2 told to end"], "copied in parts, and whole"
    assert "merged shard-1.jsonl shard-2.jsonl\n" in said


def test_a_killed_worker_is_named_and_the_other_shards_are_merged(
    launch: Callable[..., subprocess.Popen[str]], stand_in: Path, tmp_path: Path
) -> None:
    launcher = launch(stand_in, "--shards", "2", "--", "--wait")
    wait_for(lambda: len(list(tmp_path.glob("began-?"))) == 2, launcher)
    os.kill(int((tmp_path / "began-2").read_text()), signal.SIGKILL)
    said, err = launcher.communicate(timeout=RUN_TIMEOUT_S)
    assert launcher.returncode == 3, err
    assert "\nshard 2/2 was lost; its log may be in /" in err
    assert "\nshard 1/2 ended with 130\n" in err
    assert "merged --allow-missing shard-1.jsonl\n" in said


def test_results_of_a_job_are_outside_its_package() -> None:
    config = '{"metadata": {"job_submission_id": "raysubmit_1"}}'
    package, elsewhere = Path("/tmp/ray/session_1/working_dir_files/_ray_pkg_1f"), Path("/work")
    folder = launcher_module.results_folder
    assert folder(None, package, config) == Path.home() / "sobench-results/raysubmit_1"
    assert folder(Path("mine"), package, config) == Path.home() / "mine"
    assert folder(Path("/shared/mine"), package, config) == Path("/shared/mine")
    assert folder(None, elsewhere, config) == Path("/work/sobench-results/raysubmit_1")
    assert folder(None, elsewhere, None) == Path("/work/sobench-results")


def test_an_address_that_does_not_answer_is_refused(stand_in: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        launcher = [
            sys.executable,
            str(HERE / "launch.py"),
            "--address",
            address,
            "--sobench",
            str(stand_in),
            "--connect-timeout",
            "2",
        ]
        ran = subprocess.run(
            [*launcher, "--results", str(tmp_path / "results")], capture_output=True, text=True, timeout=RUN_TIMEOUT_S
        )
    assert ran.returncode == 3, ran.stderr
    assert f"error: no Ray cluster answers at {address} within 2 s\nhint: start a cluster" in ran.stderr


def test_help_and_errors_need_no_ray(stand_in: Path, tmp_path: Path) -> None:
    def run(*typed: str | Path) -> subprocess.CompletedProcess[str]:
        # Without the packages of this Python.
        command = [sys.executable, "-I", "-S", HERE / "launch.py", *typed]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=RUN_TIMEOUT_S)

    told = run("--help")
    assert (told.returncode, told.stderr) == (0, "") and "--shards" in told.stdout
    ran = run("--sobench", stand_in)
    assert ran.returncode == 3, ran.stderr
    assert ran.stderr == f"error: Ray is not installed for {sys.executable}\nhint: pip install -r deploy/ray/requirements.txt\n"


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
    assert "error: no shard has a log\nhint: " in err


def wait_for(is_so: Callable[[], bool], launcher: subprocess.Popen[str]) -> None:
    while not is_so():
        assert launcher.poll() is None, launcher.communicate()
        time.sleep(0.05)
