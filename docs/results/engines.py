"""The page of the engines."""

import math
from collections import Counter

from common import CORPORA, CPP, MADE, MASKS, PROOFS, TITLES, count, duration, measured, missing, provenance, share, table, three
from pictures import Curves, cumulative, tail

# Figures


def percentile(values, percent):
    """Nearest rank, or None if no value is expected above it."""
    ordered = sorted(values)
    if len(ordered) * (100 - percent) < 100:
        return None
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def rows_of(file, engine):
    return [row for row in file["rows"] if row["engine"] == engine]


def is_at_compile(stopped):
    return stopped["stage"]["at"] in ("compile", "first_mask", "cached")


def compiles(rows):
    """Cold compile times of the entries that compiled; those that ran out of time are infinite."""
    values = []
    for row in rows:
        if "compile" in row:
            values.append(row["compile"]["cold_ns"])
        elif "stopped" in row and is_at_compile(row["stopped"]):
            values.append(math.inf)
    return values


def mask_counts(rows):
    """Durations of masks of the first walk over each instance, in the first spelling."""
    counts = Counter()
    for row in rows:
        for times in row["times"]:
            for ns, number in times["cold"]["mask"]["counts"]:
                counts[ns] += number
    return counts


def quantile(counts, percent):
    total, seen = sum(counts.values()), 0
    if total * (100 - percent) < 100 - 1e-6:
        return None
    for ns in sorted(counts):
        seen += counts[ns]
        if seen >= percent / 100 * total:
            return ns
    return None


def compile_line(title, values, of):
    done = [value for value in values if not math.isinf(value)]
    return [title, share(len(done), of), *(duration(percentile(values, p)) for p in (50, 90, 99)), duration(max(done, default=None))]


def mask_line(title, counts):
    total = sum(counts.values())
    return [title, f"{total:,}", *(duration(quantile(counts, p)) for p in (50, 90, 99, 99.9)), duration(max(counts, default=None))]


def cpp_times():
    """Compile times and durations of masks of the C++ library."""
    rows = CPP["result"]["rows"]
    values = [row["compile_ns"] if "compile_ns" in row else math.inf for row in rows if "declined" not in row]
    return values, Counter(ns for row in rows for ns in row["mask_ns"])


def outcome_rows(file):
    for engine in file["result"]["engines"]:
        counts = engine["spellings"][0]["schemas"]
        total = engine["schemas"]
        declined = sum(number for name, number in counts.items() if name.startswith("declined"))
        stopped = sum(counts[name] for name in ("timeout", "out_of_memory", "crash"))
        wrong = [counts["rejects_valid"], counts["accepts_invalid"], counts["dead_end"] + counts["failed"]]
        other = counts["no_instance"] + counts["not_judged"]
        cells = [share(counts["pass"], total), *wrong, declined, stopped, other]
        yield [TITLES[engine["engine"]], *cells]


def cpp_outcomes():
    worst = Counter()
    for row in CPP["result"]["rows"]:
        if "declined" in row:
            worst["declined"] += 1
        elif "stopped" in row:
            worst["stopped"] += 1
        else:
            order = ["accepts_invalid", "failed", "rejects_valid", "pass"]
            worst[next((name for name in order if name in row["outcomes"]), "none")] += 1
    return worst


# Page


def page_engines(pictures):
    files = measured([*MASKS.values(), *PROOFS.values(), CPP])
    out = [MADE, "# Engines", ""]
    records = [file["result"]["record"] for file in MASKS.values() if file]
    vocabularies = {f"{record['vocabulary']['name']} ({record['vocabulary']['ids']:,} tokens)" for record in records}
    limits = {f"{record['timeout_ms'] / 1000:g} s" for record in records}
    out.append(
        f"The engines in one process, without a server or a model ([method](../engines.md)). Vocabulary: {' or '.join(sorted(vocabularies))}."
        f" Limit for a schema under an engine: {' or '.join(sorted(limits))}.\n"
    )
    for name, file in MASKS.items():
        if not file:
            continue
        record = file["result"]["record"]
        corpus = record["corpora"][0]
        size = f"{record['selected']} of {count(corpus['entries'], 'schema')}" if record["selected"] != corpus["entries"] else count(corpus["entries"], "schema")
        out.append(f"## Corpus: {name}\n")
        out.append(
            f"{CORPORA[name][0].upper() + CORPORA[name][1:]}: {size}, SHA-256 `{corpus['sha256'][:12]}…`.\n"
        )
        header = ["engine", "pass", "rejects valid", "accepts invalid", "dead end or failed", "declined", "stopped", "no verdict"]
        lines = list(outcome_rows(file))
        if name == "maskbench" and CPP:
            worst, total = cpp_outcomes(), len(CPP["result"]["rows"])
            wrong = [worst["rejects_valid"], worst["accepts_invalid"], worst["failed"]]
            lines.append([TITLES["xgrammar-cpp"], share(worst["pass"], total), *wrong, worst["declined"], worst["stopped"], worst["none"]])
        kept = [index for index in range(len(header)) if any(line[index] for line in lines)]
        out.append(table([header[index] for index in kept], [[line[index] for index in kept] for line in lines]) + "\n")
        # Times of a few schemas say little.
        if record["selected"] < 100:
            continue
        present = [engine["engine"] for engine in file["result"]["engines"]]
        total = record["selected"]
        compile_lines, mask_lines = [], []
        compile_chart = Curves(f"Compile time, cold ({name})", "schemas of the corpus compiled within this time", 1e5, 1e10)
        mask_chart = Curves(f"Masks ({name})", "masks that take longer than this time", 1e2, 1e9, tail=True)
        for engine in present:
            rows = rows_of(file, engine)
            values, counts = compiles(rows), mask_counts(rows)
            compile_lines.append(compile_line(TITLES[engine], values, total))
            mask_lines.append(mask_line(TITLES[engine], counts))
            compile_chart.add(engine, cumulative(values, total))
            mask_chart.add(engine, tail(counts))
        if name == "maskbench" and CPP:
            values, counts = cpp_times()
            compile_lines.append(compile_line(TITLES["xgrammar-cpp"], values, len(CPP["result"]["rows"])))
            mask_lines.append(mask_line(TITLES["xgrammar-cpp"], counts))
            compile_chart.add("xgrammar-cpp", cumulative(values, len(CPP["result"]["rows"])))
            mask_chart.add("xgrammar-cpp", tail(counts))
        pictures[f"compile-{name}.svg"] = compile_chart.svg()
        pictures[f"masks-{name}.svg"] = mask_chart.svg()
        out.append(f"![Compile times by engine](pictures/compile-{name}.svg)\n")
        out.append(table(["compile, cold", "compiled", "p50", "p90", "p99", "longest"], compile_lines) + "\n")
        out.append(f"![Mask times by engine](pictures/masks-{name}.svg)\n")
        out.append(table(["mask, cold", "masks", "p50", "p90", "p99", "p99.9", "longest"], mask_lines) + "\n")
        out += common_set(file)
    out += [port_and_original()] if CPP and MASKS["maskbench"] else ["Not measured: `xgrammar-cpp`, the C++ library.\n"]
    out += proofs()
    out.append("""## How to read
- *Rejects valid*: a mask forbids a token of a valid text. *Accepts invalid*: an invalid text is allowed up to its end. *Declined*:
  refused with a message. *Stopped*: time, memory or a crash. *No verdict*: no instance, or its label and our evaluator disagree. A
  schema counts once, with its worst instance. Outcomes of no schema are left out.
- Percentiles of compile times leave out declined schemas; the curves are over all schemas. `–`: too few values.
- Percentiles of masks are over the first walk along each instance, up to the engine's first wrong mask.

## What may be unfair
- **guidance** computes masks at each token, which servers do while the GPU is busy.
- **xgrammar (port)** is not the maker's library: do not quote its times as those of xgrammar. It has one thread and no cache here; in
  servers it has several threads and a cache.
- **outlines** builds an index of the whole vocabulary, which servers reuse. Instances with line ends between members count as rejected.
- **All**: *accepts invalid* depends on the invalid instances of the corpus. Only the proofs leave out departures from JSON Schema that
  the makers document.
""")
    out.append("## What was not measured\nOther vocabularies and processors; several threads; batches; lm-format-enforcer and the GBNF of llama.cpp.\n")
    out.append(missing("masks", MASKS) + missing("proofs", PROOFS))
    versions = {engine["version"].replace(", port", " (port)") for file in MASKS.values() if file for engine in file["result"]["engines"]}
    versions |= {f"xgrammar {CPP['result']['versions']['xgrammar']} (C++)"} if CPP else set()
    out.append(f"## Versions, date, machine\n{', '.join(sorted(versions))}.\n\n{provenance(files)}")
    return "\n".join(out)


def common_set(file):
    """Percentiles of masks over the schemas that every engine passes."""
    lines = []
    for engine in file["result"]["engines"]:
        masks = engine["spellings"][0]["masks"]["common"]
        points = {point["p"]: point["ns"] for point in masks["cold"]["mask"]["percentiles"]}
        if masks["schemas"]:
            lines.append([TITLES[engine["engine"]], f"{masks['cold']['mask']['n']:,}", *(duration(points.get(p)) for p in (50.0, 90.0, 99.0))])
    if file["result"]["common_schemas"] < 20:
        return []
    return [
        f"Common set: the {count(file['result']['common_schemas'], 'schema')} that every engine passes.\n",
        table(["mask, cold, common set", "masks", "p50", "p90", "p99"], lines) + "\n",
    ]


def port_and_original():
    """How the port differs from the C++ library on the same entries."""
    port = {row["entry"]: row for row in rows_of(MASKS["maskbench"], "xgrammar")}
    pairs = [(port[row["entry"]], row) for row in CPP["result"]["rows"] if row["entry"] in port]
    both = [(a["compile"]["cold_ns"], b["compile_ns"]) for a, b in pairs if "compile" in a and "compile_ns" in b and "declined" not in b]
    ratios = [a / b for a, b in both]
    agreed = compared = 0
    for a, b in pairs:
        first = [instance for instance in a["instances"] if instance["spelling"] in ("maskbench", "verbatim")]
        for instance in first:
            if instance["index"] < len(b["outcomes"]):
                compared += 1
                agreed += instance["outcome"]["is"] == b["outcomes"][instance["index"]]
    return f"""## The port and the C++ library
Of {len(pairs)} entries of the MaskBench sample, {len(both)} compile with both. The port takes {three(percentile(ratios, 50))} times as long in the
median (p10 {three(percentile(ratios, 10))}, p90 {three(percentile(ratios, 90))}). The outcome is the same for {agreed:,} of {compared:,} instances.

Durations of the C++ library include a call from Python ({duration(CPP["result"]["call_ns"])}). Its instances are judged by the labels of the corpus
alone.
"""


def proofs():
    files = {name: file for name, file in PROOFS.items() if file}
    if not files:
        return ["## Proven errors\nNot measured yet.\n"]
    out = [
        "## Proven errors",
        "`sobench-tools mask --prove` compares masks with what is known without the engine ([P1 to P8](../mask-proofs.md)). A *decision* is"
        " whether a token, or the end, is allowed after a text. Errors by cause: [findings](findings/README.md).\n",
    ]
    lines = []
    for name, file in files.items():
        for engine in file["result"]["engines"]:
            decided = sum(counts["decided"] for counts in engine["counts"].values())
            wrong = sum(counts["wrong"] for counts in engine["counts"].values())
            proofs = ", ".join(f"{proof} {number}" for proof, number in sorted(engine["wrong_schemas_by_proof"].items()) if number)
            stopped = engine["declined"] + engine["stopped"]
            cells = [share(engine["wrong_schemas"], engine["decided_schemas"]), stopped, f"{decided:,}", f"{wrong:,}", proofs or "none"]
            lines.append([f"{name}: {TITLES[engine['engine']]}", *cells])
    out.append(table(["corpus: engine", "schemas with an error", "declined or stopped", "decisions", "wrong", "schemas by proof"], lines) + "\n")
    out.append(
        "The search looks for errors: compare the shares of schemas, not of decisions. Limits of an entry under an engine: 5 s and 300"
        " masks.\n"
    )
    return out
