#!/usr/bin/env python3
"""What users get: runs the commands of fixtures/frozen/commands.txt in folders of their own.

    tests/outputs.py check PROGRAM                 the stored outputs are still what PROGRAM prints and writes
    tests/outputs.py update PROGRAM                stores them anew; the diff is what users will see
    tests/outputs.py compare BEFORE AFTER          two programs, all commands, by value

`compare` reads JSON as values, to --digits significant digits, and texts as words: layout does not count. --renamed is a file of
`OLD NEW` names of JSON members; with `-` as OLD a member is new, with `-` as NEW it is gone. --commands-before is the list for a
program BEFORE that has other flags: a command without one of that name in both lists is not compared.

The exit code is 1 if an output differs.
"""

import argparse
import collections
import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
FROZEN = PACKAGE / "fixtures/frozen"
LINKS = {"fixtures": "fixtures", "schemas": "schemas", "grammars": "grammars", "runs": "fixtures/frozen/runs",
         "results": "fixtures/frozen/results", "inputs": "fixtures/frozen/inputs"}
MAX_SHOWN = 6

# `say` shows a command, its output and its exit code; `ask` does so with a run that sends nothing; `serve` starts a server at $url.
# Free ports have five digits.
PRELUDE = r"""
say() {
    case $1 in mask | limits) program=sobench-tools ;; *) program=sobench ;; esac
    echo "\$ $program $*"
    $program "$@" > tmp/printed 2>&1
    code=$?
    sed 's/127\.0\.0\.1:[0-9]\{5\}/127.0.0.1:PORT/g' tmp/printed
    echo "exit code: $code"
    echo
}
ask() {
    say --dry-run --base-url http://127.0.0.1:9 --model m "$@"
}
serve() {
    : > tmp/serve.log
    sobench serve --port 0 "$@" >> tmp/serve.log 2>&1 &
    server=$!
    trap 'kill $server' EXIT
    until url=$(grep -o 'http://[^ ]*' tmp/serve.log); do
        kill -0 $server || exit 99
        sleep 0.05
    done
}
"""

# Members that are measured, or describe the machine or the date.
MEASURED = re.compile(r".*(_ns|_us|_per_s|_bytes|_per_second|_by_mean|_by_p99|_per_position)$|^(us|date|host|memory|peak_known|compile|masks|definitions)$")
# Members that exist only on a busy machine.
BUSY_ONLY = re.compile(r".*\.(doubts|distrust)$")

Command = collections.namedtuple("Command", "name script kept stored")


def commands(path):
    """All commands: `NAME: SCRIPT` or `NAME (MARKS): SCRIPT`; lines that begin with a blank go on with the script. {run} stands for
    every frozen run. Marks, with commas between them: `keys` keeps the paths and types of JSON only; `outcomes` leaves out times,
    memory, dates and the machine; the output of `stored` is stored, and of `stored RUN RUN` for these runs. Others are only compared."""
    blocks = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            blocks[-1][1] += line.lstrip() + "\n"
        else:
            name, script = line.split(":", 1)
            blocks.append([name, script.strip() + "\n"])
    runs = sorted(log.stem for log in (FROZEN / "runs").glob("*.jsonl"))
    for name, script in blocks:
        name, _, marks = name.rstrip(")").partition(" (")
        kept, of_runs, stored = "whole", [], False
        for mark in filter(None, marks.split(", ")):
            if mark in ("keys", "outcomes"):
                kept = mark
            elif mark.split()[0] == "stored":
                stored, of_runs = True, mark.split()[1:]
            else:
                sys.exit(f"{path}: unknown mark: {mark}")
        for run in runs if "{run}" in name else [""]:
            is_stored = stored and (not of_runs or run in of_runs)
            yield Command(name.replace("{run}", run), script.replace("{run}", run), kept, is_stored)


def outputs_of(command, program):
    """What a command printed, and the files that it wrote, by name."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        for name, target in LINKS.items():
            (folder / name).symlink_to(PACKAGE / target)
        scratch = folder / "tmp"
        (scratch / "bin").mkdir(parents=True)
        (scratch / "bin/sobench").symlink_to(program)
        (scratch / "bin/sobench-tools").symlink_to(pathlib.Path(program).with_name("sobench-tools"))
        environment = {"PATH": f"{scratch}/bin:{os.environ['PATH']}", "HOME": str(scratch), "XDG_CACHE_HOME": str(scratch),
                       "TMPDIR": str(scratch), "HF_HUB_OFFLINE": "1", "NO_PROXY": "127.0.0.1", "COLUMNS": "110", "LC_ALL": "C",
                       "TZ": "UTC"}
        ran = subprocess.run(["sh", "-c", PRELUDE + command.script], cwd=folder, env=environment, capture_output=True)

        def own(text):
            text = text.decode(errors="replace")
            if text.startswith('{"header":'):
                kinds = collections.Counter(line.split('"')[1] for line in text.splitlines())
                text = "run log, lines of each kind\n" + "".join(f"{kind}: {count}\n" for kind, count in sorted(kinds.items()))
            text = text.replace(str(folder), "<dir>").replace(str(PACKAGE), "<package>")
            text = steady(text, command.kept)
            return text if not text or text.endswith("\n") else text + "\n(no line end)\n"

        found = {command.name: f"{own(ran.stdout)}--- stderr\n{own(ran.stderr)}--- exit code: {ran.returncode}\n"}
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and name.parts[0] != "tmp" and not (folder / name.parts[0]).is_symlink():
                found[f"{command.name}.{'.'.join(name.parts)}"] = own(path.read_bytes())
        return found


def json_values(text):
    if not text.startswith(("{", "[")):
        return None
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return None


def steady(text, kept):
    """The text without what depends on the clock or the machine."""
    values = None if kept == "whole" else json_values(text)
    if kept == "keys":
        if values is None:
            return "(depends on the clock)\n"
        return "".join(sorted({path + "\n" for value in values for path in paths(value, "")}))
    if kept == "outcomes" and values is not None:
        return "".join(json.dumps(without_measured(value), indent=2, ensure_ascii=False) + "\n" for value in values)
    if kept == "outcomes":
        text = re.sub(r"(?m)^(machine|wall time): .*(\n  .*)*$", r"\1: <machine>", text)
        return re.sub(r"\b\d{8}-\d{6}\b", "<date>", text)
    return text


def paths(value, at):
    # A figure is null if there are too few samples.
    kinds = {dict: "object", list: "array", bool: "bool", str: "string"}
    kind = "(depends on the machine)" if BUSY_ONLY.match(at) else kinds.get(type(value), "number or null")
    yield f"{at or '.'} {kind}"
    if BUSY_ONLY.match(at):
        return
    members = value.items() if isinstance(value, dict) else ()
    for name, member in members:
        yield from paths(member, f"{at}.{name}")
    for item in value if isinstance(value, list) else ():
        if isinstance(item, (dict, list)):
            yield from paths(item, f"{at}[]")


def without_measured(value):
    if isinstance(value, dict):
        return {name: without_measured(member) for name, member in value.items() if not MEASURED.match(name)}
    if isinstance(value, list):
        return [without_measured(item) for item in value]
    return value


def all_outputs(chosen, program):
    found = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for outputs in pool.map(lambda command: outputs_of(command, program), chosen):
            twice = found.keys() & outputs.keys()
            if twice:
                sys.exit(f"two outputs are called {twice.pop()}")
            found.update(outputs)
    return found


def first_difference(expected, found):
    for number, (left, right) in enumerate(zip(expected.splitlines() + ["(the end)"], found.splitlines() + ["(the end)"]), 1):
        if left != right:
            return f"line {number}\n  expected: {left[:300]}\n  found:    {right[:300]}"
    return "line ends"


def check(program, update, differing):
    found = all_outputs([command for command in commands(FROZEN / "commands.txt") if command.stored], program)
    folder = FROZEN / "outputs"
    stored = {str(path.relative_to(folder))[:-len(".txt")]: path.read_bytes().decode() for path in folder.rglob("*.txt")}
    if update:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        shutil.rmtree(differing, ignore_errors=True)
    differences = [f"{name}: no longer produced" for name in stored.keys() - found.keys()]
    for name, text in found.items():
        if not update and stored.get(name) == text:
            continue
        path = (folder if update else differing) / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        differences.append(f"{name}, {first_difference(stored[name], text)}" if name in stored else f"{name}: not stored")
    if update:
        return []
    return differences + [f"what was found is in {differing}; .ci/update stores it"] if differences else []


# --- by value


def of_digits(number, digits):
    return float(f"{number:.{digits}g}")


def words(text, digits):
    """The words of a text, without lines of tables. Numbers are words of their own."""
    for word in re.findall(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|[^\s\d|=+<>\"-]+|[<>\"]|-+|=+|\++", text):
        if re.fullmatch(r"[-=+]+", word):
            continue
        is_number = word[-1].isdigit() and re.match(r"[-+]?\d", word)
        yield f"{of_digits(float(word), digits)!r}" if is_number and "." in word else word


def value_differences(before, after, renamed, digits, at=""):
    if isinstance(before, dict) and isinstance(after, dict):
        gone = {old for old, new in renamed if new == "-"}
        added = {new for old, new in renamed if old == "-"}
        names = {old: new for old, new in renamed if "-" not in (old, new)}
        expected = {names.get(name, name): value for name, value in before.items() if name not in gone}
        for name in [*expected, *(name for name in after if name not in expected)]:
            if name not in after:
                yield f"{at}.{name}: gone"
            elif name not in expected:
                if name not in added:
                    yield f"{at}.{name}: new"
            else:
                yield from value_differences(expected[name], after[name], renamed, digits, f"{at}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{at}: {len(before)} items, now {len(after)}"
        for index, (left, right) in enumerate(zip(before, after)):
            yield from value_differences(left, right, renamed, digits, f"{at}[{index}]")
    elif isinstance(before, float) and isinstance(after, (int, float)) and not isinstance(after, bool):
        if of_digits(before, digits) != of_digits(after, digits):
            yield f"{at}: {before!r}, now {after!r}"
    elif isinstance(before, str) and isinstance(after, str):
        yield from (f"{at}: {difference}" for difference in text_differences(before, after, digits))
    elif before != after or type(before) is not type(after):
        yield f"{at}: {before!r}, now {after!r}"


def text_differences(before, after, digits):
    left, right = list(words(before, digits)), list(words(after, digits))
    if left == right:
        return
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind != "equal":
            context = " ".join(left[max(0, start - 4):start])
            yield f"{context} [{' '.join(left[start:end])[:200]}] now [{' '.join(right[new_start:new_end])[:200]}]"


def differences_by_value(before, after, renamed, digits):
    separator = "--- stderr\n"
    (left, _, left_rest), (right, _, right_rest) = before.partition(separator), after.partition(separator)
    values = json_values(left), json_values(right)
    if None in values:
        return list(text_differences(before, after, digits))
    found = list(value_differences(*values, renamed, digits))
    return found + list(text_differences(left_rest, right_rest, digits))


def compare(arguments):
    lists = [list(commands(path)) for path in (arguments.commands_before, arguments.commands)]
    names = [{command.name for command in some} for some in lists]
    chosen = [[command for command in some if command.name in names[0] & names[1] and re.search(arguments.only, command.name)]
              for some in lists]
    before, after = (all_outputs(some, program) for some, program in zip(chosen, (arguments.before, arguments.program)))
    renamed = []
    if arguments.renamed:
        lines = arguments.renamed.read_text().splitlines()
        renamed = [tuple(line.split()[:2]) for line in lines if line.strip() and not line.startswith("#")]
    differences = [f"{name}: gone" for name in before.keys() - after.keys()] + [f"{name}: new" for name in after.keys() - before.keys()]
    for name in before.keys() & after.keys():
        found = differences_by_value(before[name], after[name], renamed, arguments.digits)
        if found:
            rest = [f"... {len(found) - arguments.shown} more"] if len(found) > arguments.shown else []
            differences.append("\n  ".join([name, *found[:arguments.shown], *rest]))
    skipped = len(names[0] ^ names[1])
    print(f"{len(before.keys() | after.keys())} outputs compared, {len(differences)} differ; {skipped} commands are in one list only")
    return sorted(differences)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["check", "update", "compare"])
    parser.add_argument("programs", nargs="+", type=lambda path: pathlib.Path(path).resolve(strict=True), metavar="PROGRAM")
    parser.add_argument("--digits", type=int, default=12, help="significant digits of numbers (default: 12)")
    parser.add_argument("--renamed", type=pathlib.Path, help="file of renamed JSON members")
    parser.add_argument("--commands", type=pathlib.Path, default=FROZEN / "commands.txt")
    parser.add_argument("--commands-before", type=pathlib.Path, default=FROZEN / "commands.txt")
    parser.add_argument("--only", default="", help="regular expression of names of commands")
    parser.add_argument("--shown", type=int, default=MAX_SHOWN, help="differences shown of each output (default: 6)")
    parser.add_argument("--differing", type=pathlib.Path, default=PACKAGE / "target/tmp/frozen", help="folder for outputs that differ")
    arguments = parser.parse_args()
    *before, arguments.program = arguments.programs
    if len(before) != (arguments.task == "compare"):
        parser.error("compare takes two programs, check and update one")
    if arguments.task == "compare":
        arguments.before = before[0]
        differences = compare(arguments)
    else:
        differences = check(arguments.program, arguments.task == "update", arguments.differing)
    print("\n".join(differences))
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
