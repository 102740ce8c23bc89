#!/usr/bin/env python3
"""Runs sobench as shards on the nodes of a Ray cluster: one on each, begun together, their logs brought here and merged.

    python launch.py --shards 4 --results results -- --base-url http://server:8000 --dataset json --request-rate 400

What stands after `--` are sobench's own arguments, the same for every shard. Of sobench this knows only `--shard auto` with its
variable SOBENCH_SHARD, `--coordinator`, `--run-log` and `sobench merge`; what a log holds is not its business.

Exit codes: 0 done; 2 wrong arguments; 3 no Ray or no cluster, a shard was lost or could not be placed, or the run is partial;
130 interrupted (Ctrl-C, SIGTERM, `ray job stop`); else that of the first shard that did not end well, or of the merge.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Help and errors in arguments need no Ray. Its annotations cover neither actors with several threads nor nodes.
ray: Any = importlib.import_module("ray") if importlib.util.find_spec("ray") else None

PIECE_BYTES = 8 << 20
"""Of a log, in one message: logs hold every answer, and may be larger than Ray's object store."""

CAUSE_BYTES = 2000
"""End of the stderr of a failed shard that is printed once more, with its exit code."""

POLL_S = 1.0
"""Time between two reads of the stderr of the shards."""

LOST = -1
"""In the place of the exit code of a shard that was lost with its node."""

INTERRUPTED = 130
"""The exit code of sobench, and of this, after a signal."""

KEYS = ("OPENAI_API_KEY", "HF_TOKEN", "HF_ENDPOINT")
"""Variables that go along to the nodes, where they are set here."""


class Signals:
    """Counts SIGINT, SIGTERM and SIGHUP. Ray replaces handlers, so these are installed after `ray.init`. While `drains` is false,
    a signal ends the launcher. While shards run, the first signal lets requests in flight end, the second cancels them, and the
    third ends the launcher."""

    def __init__(self) -> None:
        self.count = 0
        self.drains = False

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def _handle(self, *_: object) -> None:
        self.count += 1
        if not self.drains or self.count > 2:
            raise KeyboardInterrupt


signals = Signals()


class Refused(Exception):
    """The run does not take place, or did not end well: what is wrong, what to do, and the exit code."""

    def __init__(self, what: str, hint: str, code: int = 3) -> None:
        super().__init__(what)
        self.hint, self.code = hint, code


@dataclass(frozen=True)
class Place:
    """The node of a shard, a port that was free there, and the folder there with its log and stderr."""

    node: str
    address: str
    port: int
    folder: str


class Shard:
    """One shard on its node. `run` blocks, so that the actor needs other threads for `stop` and `read`."""

    def __init__(self, number: int, of: int) -> None:
        self.name = f"{number}/{of}"
        self.folder = Path(tempfile.mkdtemp(prefix="sobench-"))
        self.running: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def place(self) -> Place:
        """Tells the node, and looks for a free port. Where somebody else takes it before the coordinator does, the run does not
        begin, and says so."""
        with socket.socket() as listener:
            listener.bind(("", 0))
            port = int(listener.getsockname()[1])
        return Place(socket.gethostname(), ray.util.get_node_ip_address(), port, str(self.folder))

    def run(self, program: str | bytes, arguments: Sequence[str], variables: dict[str, str]) -> int:
        """Runs the program, or the one with these bytes, to its end; its exit code, as a shell would give it."""
        path = program if isinstance(program, str) else self._unpack(program)
        log, err = self.folder / "log", self.folder / "err"
        command = [path, *arguments, "--shard", "auto", "--run-log", str(log)]
        with err.open("wb") as said:
            try:
                self.running = subprocess.Popen(
                    command,
                    env={**os.environ, **variables, "SOBENCH_SHARD": self.name},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                )
            except OSError as error:
                said.write(f"error: cannot start {path} here: {error}\nhint: --sobench PATH, or --ship to send yours\n".encode())
                return 127
            if self.stopped:
                self.stop()
            code = self.running.wait()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """As Ctrl-C does: requests in flight may end, a second call cancels them, and the log is written to its end."""
        self.stopped = True
        if self.running is not None:
            self.running.send_signal(signal.SIGTERM)

    def read(self, name: str, offset: int) -> bytes:
        """A piece of a file; empty at its end, or where there is none."""
        try:
            with (self.folder / name).open("rb") as file:
                file.seek(offset)
                return file.read(PIECE_BYTES)
        except FileNotFoundError:
            return b""

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _unpack(self, program: bytes) -> str:
        path = self.folder / "sobench"
        path.write_bytes(program)
        path.chmod(0o700)
        return str(path)


def main(argv: Sequence[str]) -> int:
    options = parse(argv)
    try:
        check(options)
        connect(options)
        return launch(options)
    except Refused as refused:
        print(f"error: {refused}\nhint: {refused.hint}", file=sys.stderr)
        return refused.code
    except OSError as error:
        print(f"error: cannot write the results: {error}\nhint: name another folder in --results", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if ray is not None and ray.is_initialized():
            ray.shutdown()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--shards", type=int, help="how many; by default as many as there are nodes with enough cores")
    parser.add_argument("--results", type=Path, help="folder for logs and the merged run (sobench-results)")
    parser.add_argument("--address", default="auto", help="of the Ray cluster (default: the one that this machine belongs to)")
    parser.add_argument("--cpus", type=float, default=2, help="cores that a shard takes of its node (2)")
    parser.add_argument("--sobench", default="sobench", help="the program, here and on the nodes (default: the one on the PATH)")
    parser.add_argument("--ship", action="store_true", help="send the program from here to the nodes")
    parser.add_argument("--connect-timeout", type=float, default=30, metavar="S", help="how long the cluster may not answer (30)")
    parser.add_argument("--placement-timeout", type=float, default=300, metavar="S", help="how long the nodes may be busy (300)")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENTS", help="arguments of sobench")
    return parser.parse_args(argv)


def check(options: argparse.Namespace) -> None:
    if shutil.which(options.sobench) is None:
        raise Refused(f"no program {options.sobench} here, and the merge needs it", "--sobench PATH", 2)
    ours = {"--shard", "--coordinator", "--run-log"} & {argument.split("=")[0] for argument in options.arguments}
    if ours:
        raise Refused(f"the launcher itself gives {', '.join(sorted(ours))}", "leave it out", 2)
    options.results = results_folder(options.results, Path.cwd(), os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR"))
    if any(options.results.glob("*.jsonl")):
        raise Refused(f"{options.results} has logs already", "name another folder in --results", 2)
    if ray is None:
        raise Refused(f"Ray is not installed for {sys.executable}", "pip install -r deploy/ray/requirements.txt")
    options.results.mkdir(parents=True, exist_ok=True)


def results_folder(typed: Path | None, here: Path, job_config: str | None) -> Path:
    """The folder for results. A job runs in Ray's cache of packages, which Ray replaces and deletes; there, relative paths start
    at the home folder. Without --results, every job has a folder of its own."""
    job = str(json.loads(job_config).get("metadata", {}).get("job_submission_id", "")) if job_config else ""
    is_package = any(part.startswith("_ray_pkg_") for part in here.parts)
    return (Path.home() if is_package else here) / (typed or Path("sobench-results", job))


def connect(options: argparse.Namespace) -> None:
    """Connects to the cluster. `ray.init` tries an address that does not answer for minutes, so that it runs in a thread."""
    failures: list[Exception] = []

    def init() -> None:
        try:
            ray.init(address=options.address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:
            failures.append(error)

    hint = "start a cluster (`ray start --head`), or name one in --address"
    thread = threading.Thread(target=init, daemon=True)
    thread.start()
    thread.join(options.connect_timeout)
    if thread.is_alive():
        raise Refused(f"no Ray cluster answers at {options.address} within {options.connect_timeout:g} s", hint)
    if failures:
        raise Refused(f"no Ray cluster: {str(failures[0]).splitlines()[0]}", hint)
    signals.install()


def launch(options: argparse.Namespace) -> int:
    """Places, runs, collects and merges. The nodes are free again when it returns."""
    fitting = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= options.cpus]
    shards = options.shards if options.shards is not None else len(fitting)
    if not 1 <= shards <= len(fitting):
        raise Refused(
            f"{shards} shards, and {len(fitting)} nodes with {options.cpus:g} cores",
            "one node carries one shard: fewer --shards, or fewer --cpus",
            2,
        )
    group = ray.util.placement_group([{"CPU": options.cpus}] * shards, strategy="STRICT_SPREAD")
    try:
        if not group.wait(options.placement_timeout):
            raise Refused("the nodes did not become free in time", "wait for what runs there, or raise --placement-timeout")
        return run_on(group, shards, options)
    finally:
        ray.util.remove_placement_group(group)


def run_on(group: Any, shards: int, options: argparse.Namespace) -> int:
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    actor: Any = ray.remote(num_cpus=options.cpus, max_concurrency=3)(Shard)
    placed = [actor.options(scheduling_strategy=strategy(group, index)).remote(index + 1, shards) for index in range(shards)]
    places: list[Place] = ray.get([shard.place.remote() for shard in placed])
    print(f"results: {socket.gethostname()}: {options.results}")
    collected = [
        Collected(f"shard {number}/{shards}", shard, options.results / f"shard-{number}.jsonl")
        for number, shard in enumerate(placed, start=1)
    ]
    for shard, place in zip(collected, places, strict=True):
        print(f"{shard.name}: {place.node} ({place.address})", flush=True)

    program = ray.put(Path(str(shutil.which(options.sobench))).read_bytes()) if options.ship else options.sobench
    arguments = [*options.arguments, "--coordinator", f"{places[0].address}:{places[0].port}"]
    variables = {name: os.environ[name] for name in KEYS if name in os.environ}
    signals.drains = True
    running = [shard.run.remote(program, arguments, variables) for shard in placed]
    bad = wait(collected, running)

    for shard in collected:
        shard.finish()
    for index, code in bad:
        shard, place = collected[index], places[index]
        lost = f"was lost; its log may be in {place.folder} on {place.node} ({place.address})"
        how = lost if code == LOST else f"ended with {code}"
        print(f"{shard.name} {how}" + ("" if code == INTERRUPTED else f":\n{shard.cause()}"), file=sys.stderr, flush=True)
    first = bad[0][1] if bad else 0
    return merge([shard.log for shard in collected], options, INTERRUPTED if signals.count else 3 if first == LOST else first)


class Collected:
    """The files of a shard, as far as they were copied here. Its stderr is copied and printed while it runs, since it reports
    progress; its log after the end, and at once on a signal, since `ray job stop` kills after a few seconds."""

    def __init__(self, name: str, actor: Any, log: Path) -> None:
        self.name, self.actor, self.log, self.err = name, actor, log, log.with_suffix(".err")
        self.line = b""

    def copy(self, name: str, into: Path) -> bytes:
        """Appends what a file has more than its copy; the last piece of it. What a lost shard had is lost with it."""
        offset, new = into.stat().st_size if into.exists() else 0, b""
        with contextlib.suppress(ray.exceptions.RayActorError):
            while piece := ray.get(self.actor.read.remote(name, offset)):
                with into.open("ab") as file:
                    file.write(piece)
                new, offset = piece, offset + len(piece)
        return new

    def follow(self) -> None:
        """Prints new lines of the stderr, with the shard."""
        *lines, self.line = (self.line + self.copy("err", self.err)).split(b"\n")
        for line in lines:
            print(f"{self.name}: {line.decode(errors='replace')}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        self.follow()
        self.copy("log", self.log)
        with contextlib.suppress(ray.exceptions.RayActorError):
            ray.get(self.actor.close.remote())

    def cause(self) -> str:
        words = self.err.read_bytes()[-CAUSE_BYTES:].decode(errors="replace").rstrip() if self.err.exists() else ""
        return words or "(no message)"


def wait(collected: Sequence[Collected], running: Sequence[Any]) -> list[tuple[int, int]]:
    """Waits for all shards, and prints what they report. Once one ends badly, the others are stopped: without it they are another
    load. Returns those that ended badly, by index and exit code, in the order of their ends."""
    bad: list[tuple[int, int]] = []
    left, stops = dict(zip(running, range(len(running)), strict=True)), 0
    while left:
        done, _ = ray.wait(list(left), num_returns=1, timeout=POLL_S)
        for ref in done:
            index = left.pop(ref)
            code = end_of(ref)
            if code != 0:
                bad.append((index, code))
        while stops < max(signals.count, 1 if bad else 0):
            stops += 1
            for index in left.values():
                collected[index].actor.stop.remote()
            if signals.count:
                print("stopping: requests in flight may end; a second signal cancels them", file=sys.stderr, flush=True)
                for shard in collected:
                    shard.copy("log", shard.log)
        for shard in collected:
            shard.follow()
    return bad


def end_of(ref: Any) -> int:
    try:
        return int(ray.get(ref))
    except ray.exceptions.RayActorError:
        return LOST


def merge(logs: Sequence[Path], options: argparse.Namespace, failed: int) -> int:
    """Merges the logs that there are, prints the report, and returns how the run as a whole ended."""
    present = [log for log in logs if log.exists()]
    if not present:
        raise Refused("no shard has a log", f"the messages of the shards are in {options.results}", failed or 3)
    partial = [] if present == list(logs) else ["--allow-missing"]
    command = [options.sobench, "merge", *partial, *present, "--save", options.results / "run.jsonl"]
    merged = subprocess.run(command, check=False)
    return failed or merged.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
