"""The clients of `side_by_side.py`: how each is told to do the same, and what it leaves behind, in one shape. Knows no comparison."""

import json
import os
import re
import subprocess
from pathlib import Path

SEED = 7
TIME_LIMIT_S = 600
"""A client that takes longer is ended, and counts as failed."""

PREFIX = "side-"
"""Begins the `x-request-id` of measured requests, where a client can be told."""


class Failed(Exception):
    """A client did not do its run; the text says which and shows its last words."""


def run(arguments, folder, name):
    """Runs a client, keeps what it printed in the folder, and returns that."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "NO_COLOR": "1", "VLLM_NO_USAGE_STATS": "1"}
    try:
        done = subprocess.run(
            [str(argument) for argument in arguments],
            capture_output=True, text=True, timeout=TIME_LIMIT_S, cwd=folder, env=environment, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{name} took longer than {TIME_LIMIT_S} s") from error
    text = done.stdout + done.stderr
    (folder / f"{name}.printed.txt").write_text(text)
    if done.returncode != 0:
        raise Failed(f"{name} ended with code {done.returncode}:\n{text[-2000:]}")
    return text


class Plain:
    """A plain dataset, with the flags that both `vllm bench serve` and sobench take, and those that only one needs."""

    def __init__(self, name, prompts, shared, vllm=(), why="", uncounted_why=""):
        self.name, self.prompts, self.shared, self.vllm, self.why = name, prompts, shared, vllm, why
        self.uncounted_why = uncounted_why
        """Why input differs where the server does not count it."""


def plain_datasets(fixtures, folder):
    """The four, the last over a file that is written here."""
    rows = [f"Write {n} words about the {thing}." for n in range(2, 6) for thing in ("sea", "Po", "lamp", "chair", "number seven", "wind")]
    custom = folder / "custom.jsonl"
    custom.write_text("".join(json.dumps({"prompt": row}) + "\n" for row in rows))
    return [
        Plain("random", 40, ["--random-input-len", 64, "--random-output-len", 16]),
        Plain("sharegpt", 24, ["--dataset-path", fixtures / "sharegpt.json", "--sharegpt-output-len", 16, "--ignore-eos"]),
        Plain(
            "prefix_repetition", 40,
            ["--prefix-repetition-prefix-len", 48, "--prefix-repetition-suffix-len", 16, "--prefix-repetition-num-prefixes", 5,
             "--prefix-repetition-output-len", 16, "--ignore-eos"],
            uncounted_why="where the server does not say, vLLM counts the tokens it put together, sobench those of their text, which"
            " are others where two ends meet",
        ),
        Plain(
            "custom", len(rows), ["--dataset-path", custom, "--custom-output-len", 16, "--ignore-eos"],
            vllm=["--skip-chat-template", "--disable-shuffle"],
            why="vLLM templates and shuffles `custom` unless told not to, which it is here; sobench sends rows as they are, in order",
        ),
    ]  # fmt: skip


def bench_serve(options, url, dataset, rate, folder, name):
    """`vllm bench serve`; its result file."""
    result = folder / f"{name}.json"
    run(
        [options.vllm, "bench", "serve", "--backend", "vllm", "--base-url", url, "--model", options.tokenizer, "--served-model-name",
         options.served_name, "--dataset-name", dataset.name, "--num-prompts", dataset.prompts, "--request-rate", rate, "--seed", SEED,
         "--temperature", 0, "--request-id-prefix", PREFIX, "--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result",
         "--save-detailed", "--result-filename", result, "--disable-tqdm", *dataset.shared, *dataset.vllm],
        folder, name,
    )  # fmt: skip
    return json.loads(result.read_text())


def script(options, url, dataset, ratio, folder, name):
    """vLLM's structured-output script, one request at a time, so that the order of arrival is that of its list; its result file."""
    result = folder / f"{name}.json"
    run(
        [options.python, options.script, "--backend", "vllm", "--base-url", url, "--model", options.served_name, "--tokenizer",
         options.tokenizer, "--dataset", dataset, "--num-prompts", options.num_structured, "--output-len", options.output_len,
         "--max-concurrency", 1, "--seed", SEED, "--structured-output-ratio", ratio, "--percentile-metrics", "ttft,tpot,itl,e2el",
         "--save-results", "--result-filename", result, "--disable-tqdm"],
        folder, name,
    )  # fmt: skip
    return json.loads(result.read_text())


def sobench(options, url, arguments, layout, folder, name):
    """sobench; its own result, and the same run in another tool's layout, both from one run log."""
    log = folder / f"{name}.run.jsonl"
    result = folder / f"{name}.json"
    run(
        [options.sobench, "--backend", "vllm", "--base-url", url, "--model", options.served_name, "--tokenizer", options.tokenizer,
         "--seed", SEED, "--temperature", 0, "--request-id-prefix", PREFIX, "--percentile-metrics", "ttft,tpot,itl,e2el",
         "--save-result", "--save-detailed", "--result-filename", result, "--run-log", log, "--disable-tqdm", *arguments],
        folder, name,
    )  # fmt: skip
    printed = subprocess.run([options.sobench, "report", log, "--format", layout], check=True, capture_output=True, text=True)
    return json.loads(result.read_text()), json.loads(printed.stdout)


def sobench_plain(options, url, dataset, rate, folder, name):
    """sobench on a plain dataset; its result and that in the layout of `vllm bench serve`."""
    arguments = ["--dataset-name", dataset.name, "--num-prompts", dataset.prompts, "--request-rate", rate]
    return sobench(options, url, [*arguments, *dataset.shared], "vllm-serve", folder, name)


def sobench_structured(options, url, dataset, ratio, preflight, folder, name):
    """sobench on a structured dataset; its result and that in the layout of the script."""
    arguments = [
        "--dataset", dataset, "--num-prompts", options.num_structured, "--output-len", options.output_len,
        "--max-concurrency", 1, "--structured-output-ratio", ratio,
    ]  # fmt: skip
    if not preflight:
        arguments.append("--skip-preflight")
    return sobench(options, url, arguments, "vllm-structured", folder, name)


def measured(requests, count):
    """The requests of the run itself, in the order of its list: by their ids where they have them, else the last ones to arrive."""
    numbered = [(re.fullmatch(re.escape(PREFIX) + r"(\d+)", request.name or ""), request) for request in requests]
    known = {int(match[1]): request for match, request in numbered if match}
    if known:
        return [known[i] for i in sorted(known)]
    return requests[-count:]


def folder_of(path):
    """The folder, made where it is missing."""
    folder = Path(path).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
