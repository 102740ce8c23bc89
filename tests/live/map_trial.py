#!/usr/bin/env python3
"""Whether a map of tools and context names the cell from which a server gets worse, and none of a faithful server.

    tests/live/map_trial.py [--sobench target/debug/sobench] [--runs 20] [--items 120]

Starts `sobench serve` with a fault beyond a cliff, in 30 % of the requests, and makes maps of 3 x 2 cells with different seeds. Prints, for
each kind, the runs that name the first cell beyond the cliff, and those that name one before it. Exit code 1 if a cliff is missed in
more than 3 of 20 runs, or a false cell is named in more than 3.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TOOLS, CONTEXTS = [4, 16, 48], [500, 2000]
# The fault, the first cell beyond the cliff, and whether a cell is beyond it.
KINDS = {
    "faithful": (None, None, lambda tools, context: False),
    "12 tools": ("empty-above-tools:12@0.3", (16, 500), lambda tools, context: tools > 12),
    "12,000 tokens": ("shorten-above-context:12000@0.3", (48, 2000), lambda tools, context: (tools, context) == (48, 2000)),
}
LIMIT = 3


def cells_of(options, url, seed, folder):
    """The first worse cells of a map, and all worse cells."""
    saved = Path(folder) / "map.json"
    command = [
        options.sobench, "bench", "--base-url", url, "--backend", "openai-chat", "--dataset", "tools", "--arms", "prompt+constraint",
        "--tools-per-request", ",".join(map(str, TOOLS)), "--context-tokens", ",".join(map(str, CONTEXTS)), "--num-prompts",
        str(options.items), "--seed", str(seed), "--output-len", "400", "--max-concurrency", "32", "--skip-preflight", "--disable-tqdm",
        "--save", saved, "--force",
    ]  # fmt: skip
    saved.unlink(missing_ok=True)
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not saved.exists():
        sys.exit(ran.stderr)
    found = json.loads(saved.read_text())["sobench"]["map"]
    return [[(cell["tools"], cell["context_tokens"]) for cell in found[name]] for name in ("first_worse", "worse")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", type=Path, default=Path("target/debug/sobench"), help="the program")
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind")
    parser.add_argument("--items", type=int, default=120, help="requests of each cell")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kind, (fault, first, is_beyond) in KINDS.items():
            faults = ["--fault", fault] if fault else []
            with subprocess.Popen([options.sobench, "serve", "--port", "0", *faults], stderr=subprocess.PIPE, text=True) as server:
                try:
                    line = next(line for line in server.stderr if "http://" in line)
                    url = "http://" + line.split("http://")[1].split()[0]
                    named = false = 0
                    for seed in range(options.runs):
                        firsts, worse = cells_of(options, url, seed, folder)
                        named += first in firsts
                        false += any(not is_beyond(*cell) for cell in worse)
                finally:
                    server.terminate()
            print(f"{kind}: {named} of {options.runs} runs name the first cell, {false} a false one", flush=True)
            limit = LIMIT * options.runs / 20
            failed |= false > limit or (first is not None and options.runs - named > limit)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
