#!/usr/bin/env python3
"""Checks witnesses of mask errors (`sobench-tools mask --prove --witnesses`) with the packages of the makers for
Python: for xgrammar the C++ library, for which sobench has a port in Rust. Nothing of sobench takes part.

Every witness is walked along byte by byte, over a vocabulary of single bytes: a token that is wrongly refused or allowed is so by
one of its bytes. What is about tokens and not about bytes cannot be seen here, nor contradictions (P7) and rollback
(P8): those are *left out*.

Needs Python 3.9 and what `witnesses.requirements.txt` beside it says. Exit codes: 0 all that were checked hold; 1 one does not; 2
none was checked. Run by `.ci/witnesses`, by hand and nightly; not part of `cargo test`.

    sobench-tools mask --prove --corpus custom:fixtures/mask/traps.jsonl --witnesses witnesses.jsonl
    tests/live/witnesses.py witnesses.jsonl
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import MagicMock

import tvm_ffi  # noqa: F401 (before there is anything by the name of torch, which it would look into)
from llguidance import LLMatcher, LLTokenizer
from outlines_core import Index, Vocabulary
from outlines_core.json_schema import build_regex_from_schema

END = 256
"""The token that ends an answer; below it every token is its byte."""


for unused in ("torch", "transformers"):
    sys.modules.setdefault(unused, MagicMock())
import xgrammar  # noqa: E402 (it imports them, and nothing here calls them)


class LeftOut(Exception):
    """The witness cannot be checked here; the text says why."""


def guidance(constraint, _policy):
    """A walk with llguidance."""
    kind, text = constraint
    if kind == "structural_tag":
        raise LeftOut("llguidance has no structural tags")
    grammar = LLMatcher.grammar_from_json_schema(text) if kind == "json" else LLMatcher.grammar_from_regex(text)
    matcher = LLMatcher(LLTokenizer("byte"), grammar)

    def step(byte):
        mask = matcher.compute_bitmask()
        return bool(mask[byte // 8] >> byte % 8 & 1) and matcher.consume_token(byte)

    return step, matcher.is_accepting


def outlines(constraint, policy):
    """A walk with outlines-core."""
    kind, text = constraint
    if kind == "structural_tag":
        raise LeftOut("outlines-core has no structural tags")
    regex = build_regex_from_schema(text, None, policy["outlines_references"]) if kind == "json" else text
    index = Index(regex, Vocabulary(END, {bytes([byte]): [byte] for byte in range(END)}))
    state = index.get_initial_state()

    def step(byte):
        nonlocal state
        following = index.get_next_state(state, byte)
        state = state if following is None else following
        return following is not None

    return step, lambda: index.is_final_state(state)


def xgrammar_(constraint, policy):
    """A walk with xgrammar."""
    kind, text = constraint
    vocabulary = [bytes([byte]) for byte in range(END)] + [b"<end>"]
    tokens = xgrammar.TokenizerInfo(vocabulary, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[END])
    compiler = xgrammar.GrammarCompiler(tokens, max_threads=1, cache_enabled=False)
    if kind == "json":
        settings = {"any_whitespace": policy["any_whitespace"], "strict_mode": policy["xgrammar_strict"]}
        matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(text, **settings))
    elif kind == "structural_tag":
        matcher = xgrammar.GrammarMatcher(compiler.compile_structural_tag(text))
    else:
        matcher = xgrammar.GrammarMatcher(compiler.compile_regex(text))
    return matcher.accept_token, lambda: matcher.accept_token(END)


WALKS = {"guidance": guidance, "outlines": outlines, "xgrammar": xgrammar_}


def new_form(tag):
    """A structural tag with `structures` and `triggers` as xgrammar's package converts it."""
    if "structures" not in tag:
        return tag

    def converted(structure):
        schema = structure["schema"]
        content = {"type": "json_schema", "json_schema": json.loads(schema) if isinstance(schema, str) else schema}
        return {"type": "tag", "begin": structure["begin"], "content": content, "end": structure["end"]}

    tags = [converted(structure) for structure in tag["structures"]]
    return {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": tag["triggers"], "tags": tags}}


def constraint_of(witness):
    """The kind and the text of the constraint."""
    ((kind, value),) = witness["constraint"].items()
    if kind == "json":
        return kind, json.dumps(value)
    if kind == "regex":
        return kind, value
    if kind == "structural_tag":
        return kind, json.dumps(new_form(value))
    raise LeftOut(f"a constraint of the kind {kind}")


def is_so(witness):
    """Whether the library does what the witness says."""
    proof = witness["finding"]["proof"]
    before, token = witness["prefix_text"], witness.get("token_text") or ""
    if proof not in ("P1", "P2", "P3", "P4"):
        raise LeftOut(proof)
    if "\ufffd" in before + token:
        raise LeftOut("bytes that are no text")
    if witness["engine"] not in WALKS:
        raise LeftOut(f"the engine {witness['engine']}")
    step, is_accepting = WALKS[witness["engine"]](constraint_of(witness), witness["policy"])
    for byte in before.encode():
        if not step(byte):
            return False
    goes_on = all(step(byte) for byte in token.encode())
    return {"P1": not goes_on, "P4": goes_on}[proof] if token else is_accepting() == (proof == "P3")


def read(path):
    """The witnesses of a file, each with the number of its line."""
    try:
        lines = enumerate(path.read_text().splitlines(), 1)
        witnesses = [(number, json.loads(line)) for number, line in lines if line.strip()]
        if all(witness["sobench_witness"] == 1 for _, witness in witnesses):
            return witnesses
        raise ValueError("a version that is not known")
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"error: no file of witnesses: {path}: {error!r}\nhint: sobench-tools mask writes one", file=sys.stderr)
        sys.exit(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("witnesses", type=Path, help="JSONL of sobench-tools mask --prove --witnesses")
    tally = Counter()
    for number, witness in read(parser.parse_args().witnesses):
        try:
            standing = "holds" if is_so(witness) else "DOES NOT HOLD"
        except LeftOut as error:
            standing = f"left out: {error}"
        tally[standing.split(":")[0]] += 1
        print(f"{number:4} {witness['found_with']} {witness['finding']['proof']}: {standing}")
    print(", ".join(f"{count} {standing}" for standing, count in sorted(tally.items())) or "no witness")
    if tally["DOES NOT HOLD"]:
        return 1
    return 0 if tally["holds"] else 2


if __name__ == "__main__":
    sys.exit(main())
