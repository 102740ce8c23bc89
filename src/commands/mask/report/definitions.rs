//! Definitions of the words of a report, shared by the page and the JSON file.

/// The definitions of words that occur in `page`, the words of a page above them.
pub fn spoken_of(page: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let occurs = |name: &str| match name {
        "headline spelling" => page.contains("in the other spellings"),
        "own set" => page.contains("own: "),
        "common set" => page.contains("common: "),
        "timeouts" => page.contains("timeout") || page.contains(" >"),
        "cold, first mask, to first mask, cached" => page.contains("to first mask"),
        "cold and warm masks" => page.contains("warm mask"),
        "schema outcome" => page.contains("Outcomes of schemas"),
        name => page.contains(name),
    };
    DEFINITIONS
        .into_iter()
        .filter(move |(name, _)| occurs(name))
}

/// A name and its meaning, in reading order.
pub const DEFINITIONS: [(&str, &str); 17] = [
    (
        "schema",
        "an entry of the corpus with its constraint, whatever the constraint's kind",
    ),
    (
        "instance",
        "a text of an entry that its constraint should allow or mask out",
    ),
    (
        "schema outcome",
        "of the instances that can be judged the worst decides: pass < rejects valid < declined < dead end < failed while masking < \
         timeout < out of memory < crash < accepts invalid",
    ),
    (
        "rejects valid",
        "a token of a valid text, or its end, is masked out",
    ),
    (
        "accepts invalid",
        "an invalid text is allowed to its end, or the end is allowed after a text that is not valid",
    ),
    (
        "disputed",
        "the corpus's label and our evaluator disagree; listed, and in no outcome of a schema",
    ),
    (
        "not judged",
        "neither label nor evaluator can say, or our evaluator was stopped; no engine is blamed",
    ),
    (
        "headline spelling",
        "the first of the measured ways to write JSON; outcomes of schemas and the common set are by it",
    ),
    (
        "own set",
        "compile: schemas that this engine compiled, and those whose compile timed out; masks: schemas of which it began a walk, \
         whatever came of them, up to the wrong mask; of a walk that was stopped not every duration is known",
    ),
    (
        "common set",
        "schemas that every engine of this measurement passes in the headline spelling; schemas without instances are \
         not in it",
    ),
    (
        "cold, first mask, to first mask, cached",
        "the first compile of this constraint, in a child process that may have compiled others before; a matcher and its first \
         mask; the two added, schema by schema; the same constraint asked of the compile cache again",
    ),
    (
        "timeouts",
        "count as longer than the limit in every rank (shown as >limit), and are in no mean: there is none where one is \
         among the values; the limit is a row's: compile, first mask and walks together; a walk that ran into it counts as one \
         mask and one step above it, cold and warm, which ranks it last; whether a single mask took that long is not known",
    ),
    (
        "cold and warm masks",
        "the first walk over an instance in this spelling; the same walk again on a new matcher (not with --cold-only); the instances and spellings of a \
         schema share its grammar, so that only the first of them meets one that was just compiled",
    ),
    (
        "step",
        "the mask before a token and the commit of that token, together",
    ),
    (
        "slope",
        "least squares through (token's position, mask time), over all walks; * where it is over fewer than 1,000 masks",
    ),
    (
        "masks/s/core",
        "1 / mean(step), one thread; of the warm walks, if there were any",
    ),
    (
        "sequences in 10 ms",
        "floor(10 ms / mean(step)), one core; by p99: floor(10 ms / p99(step)); of the warm walks, if there were any",
    ),
];

/// Masks below which a slope is marked: a few walks of a few tokens tell of their texts, and not of
/// how masks grow.
pub const SLOPE_MIN_MASKS: u64 = 1_000;

/// Which percentile is meant, and when it is marked.
pub const PERCENTILE: &str = "percentiles are the smallest value that at least this share does not exceed, within 0.1 %; * marks \
     those for which there are too few values (fewer than two beyond it at 99 % confidence, MLPerf's rule)";
