#!/usr/bin/env python3
"""Runs the script of every page in this folder with the makers' packages, and compares what it prints with the output on the page.

A page has one Python block, and after it one text block with the output. Blocks after the line `<!-- needs a server -->` are not
run. Needs Python 3.9 and the packages in `tests/live/witnesses.requirements.txt`, with xgrammar; `.ci/witnesses` installs them.
Exit codes: 0 every output is that of the page; 1 one differs; 2 wrong arguments, or a page without a script.

    docs/results/findings/check.py [PAGE...]
    docs/results/findings/check.py --issue PAGE     prints the page as the text of an issue
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
TIME_LIMIT_S = 180
SERVER = "<!-- needs a server -->"
BLOCKS = re.compile(r"```python\n(?P<script>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)

# xgrammar imports torch and transformers, which the scripts do not use. tvm_ffi looks into torch, and is imported before.
PRELUDE = """
import importlib.util, sys
from unittest.mock import MagicMock
if importlib.util.find_spec("tvm_ffi"):
    import tvm_ffi
for unused in ("torch", "transformers"):
    if importlib.util.find_spec(unused) is None:
        sys.modules[unused] = MagicMock()
exec(compile(sys.stdin.read(), sys.argv[1], "exec"), {"__name__": "__main__"})
"""


def fail(message, hint):
    """Ends with the exit code for wrong arguments."""
    print(f"error: {message}\nhint: {hint}", file=sys.stderr)
    sys.exit(2)


def pages(names):
    """The pages with these names, or all."""
    paths = [FOLDER / f"{Path(name).stem}.md" for name in names] or sorted(FOLDER.glob("*.md"))
    for path in paths:
        if not path.is_file():
            fail(f"no page of this name: {path.name}", "name a page of this folder, such as xgrammar-siblings")
    return [path for path in paths if path.name != "README.md"]


def blocks(path):
    """The script of a page, its output, and whether it needs a server."""
    text = path.read_text(encoding="utf-8")
    found = BLOCKS.search(text)
    if not found:
        fail(f"no script with its output: {path.name}", "write a block of python, then a block of text")
    return found, SERVER in text[: found.start()]


def printed(path, script):
    """What the script prints, and its messages if it fails."""
    arguments = [sys.executable, "-c", PRELUDE, path.name]
    try:
        done = subprocess.run(
            arguments, input=script, capture_output=True, encoding="utf-8", timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"(no end within {TIME_LIMIT_S} s)\n"
    return done.stdout if done.returncode == 0 else f"{done.stdout}(exit code {done.returncode})\n{done.stderr}"


def issue(path):
    """The issue text of a page: title, versions, error, script and output."""
    found, _ = blocks(path)
    text = path.read_text(encoding="utf-8")
    if "Nothing to file" in " ".join(text.split()):
        fail(f"nothing to file: {path.name}", "the page names the known issue")
    title, facts, error = text.split("\n## Reproduction\n")[0].split("\n\n", 2)
    versions = facts.split("\n- Upstream:")[0]
    return f"{title.replace('#', '**Title:**', 1)}\n\n{error.strip()}\n\n{found[0]}\n\n{versions}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="names of pages (default: all)")
    parser.add_argument("--issue", action="store_true", help="print the text of the issue and run nothing")
    arguments = parser.parse_args()
    if arguments.issue:
        print("\n\n".join(issue(path) for path in pages(arguments.pages)))
        return 0
    different = 0
    for path in pages(arguments.pages):
        found, needs_server = blocks(path)
        if needs_server:
            print(f"{path.stem}: not run, needs a server")
            continue
        output = printed(path, found["script"])
        if output == found["output"]:
            print(f"{path.stem}: as on the page")
        else:
            different += 1
            print(f"{path.stem}: DIFFERENT\n--- on the page\n{found['output']}--- printed\n{output}---")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
