#!/usr/bin/env python3
"""Runs sobench as shards on the nodes of a Ray cluster: one on each, begun together, their logs brought here and merged.

    python launch.py --shards 4 --results results -- --base-url http://server:8000 --dataset json --request-rate 400

What stands after `--` are sobench's own arguments, the same for every shard. Of sobench this knows only `--shard auto` with its
variable SOBENCH_SHARD, `--coordinator`, `--run-log` and `sobench merge`; what a log holds is not its business.

Exit codes: 0 done; 2 wrong arguments; 3 a shard was lost, or could not be placed; 130 interrupted; else that of the first shard
that did not end well, or of the merge.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray as typed_ray
from ray.exceptions import RayActorError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

# Ray's annotations cover neither actors with several threads nor what it tells of nodes.
ray: Any = typed_ray

PIECE_BYTES = 8 << 20
"""Of a log, in one message: logs hold every answer, and may be larger than Ray's object store."""

SAID_BYTES = 4000
"""Of what a shard said on stderr, for the console; the files have all of it."""

LOST = -1
"""In the place of the exit code of a shard that was lost with its node."""

KEYS = ("OPENAI_API_KEY", "HF_TOKEN", "HF_ENDPOINT")
"""Variables that go along to the nodes, where they are set here."""


class Refused(Exception):
    """The run does not take place, or did not end well: what is wrong, what to do, and the exit code."""

    def __init__(self, what: str, hint: str, code: int = 3) -> None:
        super().__init__(what)
        self.hint, self.code = hint, code


@dataclass(frozen=True)
class Place:
    """Where a shard stands, and a port that was free there."""

    node: str
    address: str
    port: int


class Shard:
    """One shard on its node. `run` blocks, so that the actor needs a second thread for `stop`."""

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
        return Place(socket.gethostname(), ray.util.get_node_ip_address(), port)

    def run(self, program: str | bytes, arguments: Sequence[str], variables: dict[str, str]) -> int:
        """Runs the program, or the one with these bytes, to its end; its exit code, as a shell would give it."""
        path = program if isinstance(program, str) else self._unpack(program)
        log, err = self.folder / "log", self.folder / "err"
        command = [path, *arguments, "--shard", "auto", "--run-log", str(log), "--disable-tqdm"]
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
        """As Ctrl-C does: what is under way may end, and the log is written to its end."""
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        check(options)
        ray.init(address=options.address, log_to_driver=False, logging_level=logging.WARNING)
        return launch(options)
    except Refused as refused:
        print(f"error: {refused}\nhint: {refused.hint}", file=sys.stderr)
        return refused.code
    except ConnectionError as error:
        print(f"error: no Ray cluster: {error}\nhint: start one (`ray start --head`), or name it in --address", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    finally:
        ray.shutdown()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--shards", type=int, help="how many; by default as many as there are nodes with enough cores")
    parser.add_argument("--results", type=Path, default=Path("sobench-results"), help="folder here for logs and the merged run")
    parser.add_argument("--address", default="auto", help="of the Ray cluster (default: the one that this machine belongs to)")
    parser.add_argument("--cpus", type=float, default=2, help="cores that a shard takes of its node (2)")
    parser.add_argument("--sobench", default="sobench", help="the program, here and on the nodes (default: the one on the PATH)")
    parser.add_argument("--ship", action="store_true", help="send the program from here to the nodes")
    parser.add_argument("--placement-timeout", type=float, default=300, metavar="S", help="how long the nodes may be busy (300)")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENTS", help="arguments of sobench")
    return parser.parse_args(argv)


def check(options: argparse.Namespace) -> None:
    if shutil.which(options.sobench) is None:
        raise Refused(f"no program {options.sobench} here, and the merge needs it", "--sobench PATH", 2)
    ours = {"--shard", "--coordinator", "--run-log"} & {argument.split("=")[0] for argument in options.arguments}
    if ours:
        raise Refused(f"the launcher itself gives {', '.join(sorted(ours))}", "leave it out", 2)
    options.results.mkdir(parents=True, exist_ok=True)
    if any(options.results.glob("*.jsonl")):
        raise Refused(f"{options.results} has logs already", "name another folder in --results", 2)


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
    group = placement_group([{"CPU": options.cpus}] * shards, strategy="STRICT_SPREAD")
    try:
        if not group.wait(options.placement_timeout):
            raise Refused("the nodes did not become free in time", "wait for what runs there, or raise --placement-timeout")
        return run_on(group, shards, options)
    finally:
        remove_placement_group(group)


def run_on(group: Any, shards: int, options: argparse.Namespace) -> int:
    actor: Any = ray.remote(num_cpus=options.cpus, max_concurrency=2)(Shard)
    placed = [
        actor.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote(index + 1, shards)
        for index in range(shards)
    ]
    places: list[Place] = ray.get([shard.place.remote() for shard in placed])
    for number, place in enumerate(places, start=1):
        print(f"shard {number}/{shards}: {place.node} ({place.address})", flush=True)

    program = ray.put(Path(str(shutil.which(options.sobench))).read_bytes()) if options.ship else options.sobench
    arguments = [*options.arguments, "--coordinator", f"{places[0].address}:{places[0].port}"]
    variables = {name: os.environ[name] for name in KEYS if name in os.environ}
    running = [shard.run.remote(program, arguments, variables) for shard in placed]
    ends = wait(placed, running)

    logs = [options.results / f"shard-{number}.jsonl" for number in range(1, shards + 1)]
    for shard, log in zip(placed, logs, strict=True):
        collect(shard, log)
    for index, code in ends.bad:
        said = logs[index].with_suffix(".err")
        words = said.read_bytes()[-SAID_BYTES:].decode(errors="replace").rstrip() if said.exists() else "(no word)"
        print(f"shard {index + 1}/{shards} {'was lost' if code == LOST else f'ended with {code}'}:\n{words}", file=sys.stderr)
    first = ends.bad[0][1] if ends.bad else 0
    return merge(logs, options, 130 if ends.interrupted else 3 if first == LOST else first)


@dataclass
class Ends:
    """How the shards ended: those that did not end well, by index and code, in the order of their ends; and whether somebody
    interrupted."""

    bad: list[tuple[int, int]] = field(default_factory=list)
    interrupted: bool = False


def wait(placed: Sequence[Any], running: Sequence[Any]) -> Ends:
    """Waits for all shards. Once one ends badly, the others are stopped: without it they are another load."""
    ends, left, stopped = Ends(), dict(zip(running, range(len(running)), strict=True)), False
    while left:
        try:
            done, _ = ray.wait(list(left), num_returns=1)
            for ref in done:
                index = left.pop(ref)
                code = end_of(ref)
                if code != 0:
                    ends.bad.append((index, code))
        except KeyboardInterrupt:
            ends.interrupted = True
        if not stopped and (ends.bad or ends.interrupted):
            stopped = True
            for index in left.values():
                placed[index].stop.remote()
    return ends


def end_of(ref: Any) -> int:
    try:
        return int(ray.get(ref))
    except RayActorError:
        return LOST


def collect(shard: Any, log: Path) -> None:
    """Brings what a shard wrote and said here, a piece at a time. What a lost shard had is lost with it."""
    try:
        for name, into in (("log", log), ("err", log.with_suffix(".err"))):
            offset = 0
            while piece := ray.get(shard.read.remote(name, offset)):
                with into.open("ab") as file:
                    file.write(piece)
                offset += len(piece)
        ray.get(shard.close.remote())
    except RayActorError:
        pass


def merge(logs: Sequence[Path], options: argparse.Namespace, failed: int) -> int:
    """Merges what came, prints the report, and says how the run as a whole ended."""
    missing = [log.name for log in logs if not log.exists()]
    if missing:
        raise Refused(f"no merge: {', '.join(missing)} missing", f"the logs of the others are in {options.results}", failed or 3)
    merged = subprocess.run([options.sobench, "merge", *logs, "--output", options.results / "run.jsonl"], check=False)
    return failed or merged.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
