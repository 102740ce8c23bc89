#!/usr/bin/env python3
"""Whether a map of tools and context, or of turns, names the cell from which a server gets worse, and none of a faithful server.

    tests/live/map_trial.py [--sobench target/debug/sobench] [--runs 20] [--items 120]

Starts a server that loses 30 % of the answers beyond a cliff, and makes maps of 3 x 2 cells, or of 6 turns of sessions, with different
seeds. Prints, for each kind, the runs that name the first cell beyond the cliff, and those that name one before it. Exit code 1 if a cliff is missed in more
than 3 of 20 runs, or a false cell is named in more than 3.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from paired_trial import TOOLS as PAIRED_TOOLS
from paired_trial import Server, chance, requests

TOOLS, CONTEXTS, TURNS = [4, 16, 48], [500, 2000], 6
# Whether a body is beyond the cliff (of so many tools, characters and answers before it), the first cell beyond it, and whether a cell
# (of so many tools and tokens, or a turn) is.
KINDS = {
    "faithful": (lambda tools, chars, answers: False, None, lambda tools, context, turn: False),
    "12 tools": (lambda tools, chars, answers: tools > 12, (16, 500, None), lambda tools, context, turn: tools > 12),
    "1,000 tokens": (lambda tools, chars, answers: chars > 4000, (4, 2000, None), lambda tools, context, turn: context > 1000),
    "faithful turns": (lambda tools, chars, answers: False, None, lambda tools, context, turn: False),
    "turn 4": (lambda tools, chars, answers: answers >= 3, (None, None, 4), lambda tools, context, turn: turn >= 4),
}
# The share of answers that a cliff loses, and of those that are wrong by chance.
LOSS, NOISE = 0.3, 0.02
LIMIT = 3


class MapServer(Server):
    def __init__(self, is_lost):
        self.is_lost = is_lost
        super().__init__("map", "nothing", NOISE)

    def is_wrong(self, body, tool, in_flight):
        chars = sum(len(message["content"] or "") for message in body["messages"])
        answers = sum(message["role"] == "assistant" for message in body["messages"])
        loss = LOSS if self.is_lost(len(body["tools"]), chars, answers) else 0
        key = (self.seed, body["messages"], len(body["tools"]))
        return chance("noise", *key) < NOISE or chance("lost", *key) < loss


def session(index):
    """A session whose turns each call the same tool."""
    call = lambda turn: {"id": f"c{turn}", "type": "function", "function": {"name": "tool_0", "arguments": '{"a": 1}'}}
    messages = []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"session {index}, question {turn}"})
        messages.append({"role": "assistant", "content": None, "tool_calls": [call(turn)]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": "done"})
    choice = {"type": "function", "function": {"name": "tool_0"}}
    return {"messages": messages[:-1], "tools": PAIRED_TOOLS[:1], "tool_choice": choice}


def cells_of(options, port, dataset, seed, folder):
    """The first worse cells of a map, and all worse cells."""
    saved = Path(folder) / "map.json"
    command = [
        options.sobench, "bench", "--base-url", f"http://127.0.0.1:{port}", "--backend", "openai-chat", *dataset,
        "--num-prompts", str(options.items), "--seed", str(seed), "--max-concurrency", "16",
        "--skip-preflight", "--disable-tqdm", "--save", saved, "--force",
    ]  # fmt: skip
    saved.unlink(missing_ok=True)
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not saved.exists():
        sys.exit(ran.stderr)
    found = json.loads(saved.read_text())["sobench"]["map"]
    place = lambda cell: (cell.get("tools"), cell.get("context_tokens"), cell.get("turn"))
    return [{place(cell) for cell in found[name]} for name in ("first_worse", "worse")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", type=Path, default=Path("target/debug/sobench"), help="the program")
    parser.add_argument("--kinds", default=";".join(KINDS), help="the kinds, separated by ;")
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind")
    parser.add_argument("--items", type=int, default=120, help="requests of each cell")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.jsonl"
        bodies = [body for body in requests(2 * options.items) if "tools" in body]
        own = lambda body: [tool for tool in body["tools"] if tool["function"]["name"] == body["tool_choice"]["function"]["name"]]
        path.write_text("\n".join(json.dumps({**body, "tools": own(body)}) for body in bodies))
        sessions = Path(folder) / "sessions.jsonl"
        sessions.write_text("\n".join(json.dumps(session(index)) for index in range(options.items)))
        sizes = ["--tools-per-request", ",".join(map(str, TOOLS)), "--context-tokens", ",".join(map(str, CONTEXTS))]
        of_cells = ["--dataset", "requests", "--dataset-path", path, "--arms", "prompt+constraint", *sizes]
        of_turns = ["--dataset", "sessions", "--dataset-path", sessions, "--session-delay-scale", "0"]
        for kind in options.kinds.split(";"):
            is_lost, first, is_beyond = KINDS[kind]
            server = MapServer(is_lost)
            named = false = 0
            for seed in range(options.runs):
                server.seed = seed
                dataset = of_turns if "turn" in kind else of_cells
                firsts, worse = cells_of(options, server.server_address[1], dataset, seed, folder)
                named += first in firsts
                wrong = [cell for cell in worse if not is_beyond(*cell)]
                false += bool(wrong)
            server.shutdown()
            print(f"{kind}: {named} of {options.runs} runs name the first cell, {false} a false one", flush=True)
            limit = LIMIT * options.runs / 20
            failed |= false > limit or (first is not None and options.runs - named > limit)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
