#!/usr/bin/env python3
"""Makes runs of one embedded server, and counts what fresh comparisons of one engine given three times claim.

    tests/live/matrix_trial.py runs FOLDER --repeats 40
    tests/live/matrix_trial.py fresh --comparisons 20

Afterwards, `cargo run --example matrix_claims -- FOLDER` draws many comparisons from the stored runs.
Needs Python 3.9 with its standard library, and a built sobench. Run by hand; not part of `cargo test`.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

REQUESTS = ["--dataset", "json", "--num-prompts", "60", "--output-len", "48", "--max-concurrency", "16", "--disable-tqdm"]
SPEED = "8b-h100"


def main():
    arguments = parse()
    if arguments.do == "runs":
        arguments.folder.mkdir(parents=True, exist_ok=True)
        engine = ["--guided-decoding-backend", "xgrammar", "--embedded-speed", SPEED]
        command = [arguments.sobench, *engine, *REQUESTS, "--repeat", str(arguments.repeats), "--run-log", f"{arguments.folder}/"]
        subprocess.run(command, check=True)
    else:
        fresh(arguments)


def fresh(arguments):
    claims = 0
    for number in range(arguments.comparisons):
        servers = [serve(arguments) for _ in range(3)]
        try:
            targets = [part for name, (_, url) in zip("abc", servers) for part in ("--target", f"{name}={url}")]
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "comparison.json"
                command = [arguments.sobench, *targets, *REQUESTS, "--matrix-order", "blocks", "--repeat", "3"]
                command += ["--run-log", f"{folder}/", "--save", file]
                subprocess.run(command, check=True, capture_output=True)
                verdicts = json.loads(file.read_text())["verdicts"]["verdicts"]
        finally:
            for process, _ in servers:
                process.terminate()
                process.wait()
        found = [verdict["sentence"] for verdict in verdicts if verdict["kind"] == "differs"]
        claims += bool(found)
        print(number + 1, found or "no claim", flush=True)
    print(f"{claims} of {arguments.comparisons} fresh comparisons claim a difference")


def serve(arguments):
    """A server of the engine, and its address, which it prints."""
    command = [arguments.sobench, "serve", "--port", "0", "--guided-decoding-backend", "xgrammar", "--embedded-speed", SPEED]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if "http://" in line:
            return process, line[line.index("http://"):].split()[0].rstrip("/").removesuffix("/v1")
    raise SystemExit("the server did not start")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("do", choices=["runs", "fresh"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("matrix-trial"))
    parser.add_argument("--sobench", default=ROOT / "target/release/sobench")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--comparisons", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
