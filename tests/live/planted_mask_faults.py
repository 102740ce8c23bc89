#!/usr/bin/env python3
"""Plants each fault of masks and of cancellation in exactly 5 of 5,000 requests, and counts what a run with canaries finds.

    tests/live/planted_mask_faults.py --sobench target/release/sobench

A server with one fault (`sobench serve --fault KIND@5of5000`) gets as many canary requests as it takes for 5,000 that the fault can
change. Each fault must be found in all planted requests, under its name, and nothing else may be found. The last row is a server
without faults, with 20,000 requests, a tenth of which are cancelled.
Exit codes: 0 all of this is so; 1 otherwise.

Needs Python 3.9 with its standard library, and a built sobench. Run by hand; not part of `cargo test`.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from planted_faults import ROOT, count, run

PLANTED, ELIGIBLE, FAITHFUL = 5, 5000, 20_000
LOAD = ["--max-concurrency", "16", "--output-len", "400"]
CANCEL = ["--cancel-after", "first-token"]


@dataclass(frozen=True)
class Fault:
    found: dict
    """The classes of canaries that show the fault, with their numbers of answers."""
    state: str = None
    """The state of the server after the run, for faults of cancellation."""
    server: list = field(default_factory=list)
    client: list = field(default_factory=list)
    requests: int = 5500
    planted: int = PLANTED


FAULTS = {
    # Two requests get each other's masks.
    "swap-masks": Fault({"swapped": 2 * PLANTED}),
    "mask-off-by-one": Fault({"mask_off": PLANTED}),
    "fail-open:20": Fault({"failed_open": PLANTED}),
    "restart-grammar": Fault({"restarted": PLANTED}),
    # A matcher in another state forbids what should follow, and allows other text.
    "bad-rollback": Fault({"other_invalid": PLANTED}, server=["--embedded-speculate", "4"], requests=12_000),
    "shorten-under-load": Fault({"ended_early": PLANTED}),
    # The first one ends the server, so that there can be no second one.
    "die-on-cancel": Fault({}, "no_answer", client=["--cancel-rate", "0.5", *CANCEL], requests=11_000, planted=1),
    # The server has no slot left after the fifth one.
    "leak-slot-on-cancel": Fault(
        {},
        "no_answer",
        server=["--embedded-max-batch", "5"],
        client=["--cancel-rate", "0.5", *CANCEL, "--request-timeout", "20", "--max-consecutive-errors", "16"],
        requests=11_000,
    ),
}
WITHOUT = Fault({}, "recovered", client=["--cancel-rate", "0.1", *CANCEL], requests=FAITHFUL, planted=0)


def main():
    options = parse()
    print("{:<20} {:>8} {:>8} {:>9}  {}".format("fault", "eligible", "planted", "requests", "found"), flush=True)
    rows = [(name, fault) for name, fault in FAULTS.items() if not options.fault or name in options.fault]
    if not options.fault or "none" in options.fault:
        rows.append((None, WITHOUT))
    return int(not all([check(options.sobench, name, fault) for name, fault in rows]))


def check(sobench, name, fault):
    """Prints a row, and returns whether it is as it must be."""
    planted = f"{name}@{PLANTED}of{ELIGIBLE}" if name else None
    flags = ["--dataset", "canary", "--num-prompts", str(fault.requests), *LOAD, *fault.client]
    with tempfile.TemporaryDirectory() as folder:
        result, _, stats = run(sobench, planted, fault.server, flags, Path(folder))
    own = result["sobench"]
    classes = {row["class"]: row["rate"]["hits"] for row in own["canary"]["classes"]}
    found = {name: hits for name, hits in classes.items() if hits and name != "fine"}
    state = own.get("recovery", {}).get("state")
    kind = name.split(":")[0] if name else None
    done, eligible = (count(stats[key], kind) if kind else 0 for key in ("faults", "fault_eligible"))
    is_right = found == fault.found and done == fault.planted and (fault.state is None or state == fault.state)
    if name and fault.planted == PLANTED:
        is_right &= eligible >= ELIGIBLE or fault.state is not None
    words = [f"{name} {hits}" for name, hits in found.items()] + ([f"after the run: {state}"] if state else [])
    requests = own["canary"]["answers"]
    print(
        f"{name or 'none':<20} {eligible:>8} {done:>8} {requests:>9}  {', '.join(words) or 'nothing'}{'' if is_right else '  WRONG'}",
        flush=True,
    )
    return is_right


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sobench", default=ROOT / "target/release/sobench")
    parser.add_argument("--fault", action="append", choices=[*FAULTS, "none"], help="one of the faults, or none; several times for several")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
