#!/usr/bin/env python3
"""Measures the C++ library of xgrammar through its makers' Python package, on entries of MaskBench. `collect xgrammar-cpp` runs it.

    xgrammar_cpp.py MASKBENCH_FOLDER ENTRIES.json cl100k_base.tiktoken RESULT.json

The settings are those of `sobench mask`: any white space, strict mode, one thread, no cache. An instance is spelled as MaskBench's
Python script does, and fed token by token. Every duration has one call from Python in it; `call_ns` is that of an empty one.
"""

import json
import os
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from unittest.mock import MagicMock

import numpy
import tiktoken
import tvm_ffi  # noqa: F401 (before there is anything by the name of torch, which it would look into)
from tiktoken.load import load_tiktoken_bpe

for unused in ("torch", "transformers"):
    sys.modules.setdefault(unused, MagicMock())
import xgrammar  # noqa: E402 (it imports them, and nothing here calls them)

PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
"""How cl100k_base cuts a text before it merges bytes (tiktoken_ext/openai_public.py)."""
SPECIAL = {
    "<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276,
}  # fmt: skip
END = SPECIAL["<|endoftext|>"]
SIZE = 100277
TIME_LIMIT_S = 20
"""Of one entry, as in the other measurement: compile and instances together."""
MEMORY_LIMIT_BYTES = 4608 << 20


def timed(call, *arguments):
    start = time.perf_counter_ns()
    value = call(*arguments)
    return value, time.perf_counter_ns() - start


class Library:
    """The vocabulary, and the compiler over it."""

    def __init__(self, vocabulary):
        ranks = load_tiktoken_bpe(vocabulary)
        self.encoding = tiktoken.Encoding("cl100k_base", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=SPECIAL)
        tokens = [b""] * SIZE
        for token, rank in ranks.items():
            tokens[rank] = token
        for token, rank in SPECIAL.items():
            tokens[rank] = token.encode()
        self.info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[END])
        self.compiler = xgrammar.GrammarCompiler(self.info, max_threads=1, cache_enabled=False)
        self.bits = numpy.zeros((1, (SIZE + 31) // 32), dtype=numpy.int32)

    def compile(self, schema):
        return self.compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=True)

    def allows(self, matcher, token, durations):
        """Whether the next mask allows the token."""
        applies, duration = timed(matcher.fill_next_token_bitmask, self.bits)
        durations.append(duration)
        return not applies or bool(self.bits[0, token // 32] >> token % 32 & 1)

    def walk(self, grammar, text, is_valid, durations):
        """The outcome of an instance, in the words of `sobench mask`."""
        matcher = xgrammar.GrammarMatcher(grammar)
        for token in [*self.encoding.encode_ordinary(text), END]:
            if not self.allows(matcher, token, durations):
                return "rejects_valid" if is_valid else "pass"
            if not matcher.accept_token(token):
                return "failed"
        return "pass" if is_valid else "accepts_invalid"


def measure(library, file):
    """A row: compile times, outcomes and the durations of masks of one entry."""
    schema = json.dumps(file["schema"], ensure_ascii=False)
    row = {"outcomes": [], "mask_ns": []}
    start = time.perf_counter_ns()
    try:
        grammar, row["compile_ns"] = timed(library.compile, schema)
    except RuntimeError as error:
        row["declined"] = str(error).strip().splitlines()[-1][:300]
        row["compile_ns"] = time.perf_counter_ns() - start
        return row
    matcher, created = timed(xgrammar.GrammarMatcher, grammar)
    row["first_mask_ns"] = created + timed(matcher.fill_next_token_bitmask, library.bits)[1]
    row["grammar_bytes"] = grammar.memory_size_bytes
    for test in file["tests"]:
        text = json.dumps(test["data"], ensure_ascii=False)
        row["outcomes"].append(library.walk(grammar, text, test["valid"], row["mask_ns"]))
    return row


def in_child(library, file):
    """The row of a child process, which has limits of time and memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (TIME_LIMIT_S, TIME_LIMIT_S))
        with os.fdopen(writer, "w") as pipe:
            json.dump(measure(library, file), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 0:
        return json.loads(text)
    return {"stopped": os.waitstatus_to_exitcode(status), "outcomes": [], "mask_ns": []}


def main():
    folder, entries, vocabulary, target = map(Path, sys.argv[1:])
    library = Library(str(vocabulary))
    files = {entry: json.loads((folder / entry_file(entry)).read_text()) for entry in json.loads(entries.read_text())}
    calls = sorted(timed(int)[1] for _ in range(10_000))
    rows = [{"entry": entry, **in_child(library, file)} for entry, file in files.items()]
    result = {
        "versions": {name: version(name) for name in ("xgrammar", "apache-tvm-ffi", "tiktoken", "numpy")},
        "settings": {"any_whitespace": True, "strict_mode": True, "max_threads": 1, "cache_enabled": False},
        "time_limit_s": TIME_LIMIT_S,
        "memory_limit_bytes": MEMORY_LIMIT_BYTES,
        "call_ns": calls[len(calls) // 2],
        "rows": rows,
    }
    target.write_text(json.dumps(result))


def entry_file(entry):
    """The file of an entry."""
    return entry if entry.endswith(".json") else f"{entry}.json"


if __name__ == "__main__":
    main()
