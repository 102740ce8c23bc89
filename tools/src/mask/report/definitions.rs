//! Definitions of the terms in the report and the JSON file.

/// The definitions of the terms that occur in the text of a page.
pub fn definitions_in(page: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
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

/// Terms with their meaning, in reading order.
pub const DEFINITIONS: [(&str, &str); 17] = [
    (
        "schema",
        "an entry of the corpus with its constraint of any kind",
    ),
    (
        "instance",
        "a text of an entry that the constraint should either allow or mask out",
    ),
    (
        "schema outcome",
        "the worst outcome of the judged instances: pass < rejects valid < declined < dead end < failed while masking < \
         timeout < out of memory < crash < accepts invalid",
    ),
    (
        "rejects valid",
        "a token or the end of a valid text is masked out",
    ),
    (
        "accepts invalid",
        "an invalid text is allowed to its end, or the end is allowed after a text that is not valid",
    ),
    (
        "disputed",
        "label and evaluator disagree; listed separately, without effect on schema outcomes",
    ),
    (
        "not judged",
        "no label and no verdict, or the evaluator was stopped; not counted against any engine",
    ),
    (
        "headline spelling",
        "the first measured JSON spelling; schema outcomes and the common set refer to it",
    ),
    (
        "own set",
        "compile: schemas that this engine compiled or timed out on; masks: schemas with at least one started walk, with \
         any outcome, up to the wrong mask; stopped walks have incomplete durations",
    ),
    (
        "common set",
        "schemas that every engine of this measurement passes in the headline spelling; schemas without instances are \
         excluded",
    ),
    (
        "cold, first mask, to first mask, cached",
        "the first compile of this constraint, in a child process that may have compiled others before; creation of a matcher \
         and its first mask; the sum of both per schema; the same constraint from the compile cache",
    ),
    (
        "timeouts",
        "count as longer than the limit in percentiles (shown as >limit); a mean over values with a timeout is not \
         shown; the limit applies to a row: compile, first mask and walks together; a walk that reached it counts as one \
         mask and one step above the limit, cold and warm; the duration of its single masks is unknown",
    ),
    (
        "cold and warm masks",
        "the first walk over an instance in this spelling; the same walk repeated with a new matcher (not with --cold-only); instances and spellings of a \
         schema share its grammar, so only the first walk uses a newly compiled one",
    ),
    (
        "step",
        "the mask before a token plus the commit of that token",
    ),
    (
        "slope",
        "least-squares slope of mask time over token position, over all walks; * fewer than 1,000 masks",
    ),
    (
        "masks/s/core",
        "1 / mean(step), one thread; warm walks if available",
    ),
    (
        "sequences in 10 ms",
        "floor(10 ms / mean(step)), one core; by p99: floor(10 ms / p99(step)); warm walks if available",
    ),
];

/// Minimum masks for an unmarked slope: few short walks reflect their texts, not the growth of mask
/// time.
pub const SLOPE_MIN_MASKS: u64 = 1_000;

/// Definition of the percentiles and their mark.
pub const PERCENTILE: &str = "percentile: the smallest value that at least this share of the values does not exceed, within 0.1 %; *: too few values \
     (fewer than two beyond it at 99 % confidence, MLPerf's rule)";
