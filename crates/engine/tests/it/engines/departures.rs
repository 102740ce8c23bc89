//! Known departures of engines on the shipped workloads, with reasons. A departure that no longer
//! occurs fails the test.

use sobench_engine::EngineName;

use super::workloads::{Instance, Workload};

/// One departure of one engine on one workload.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) engine: EngineName,
    workload: &'static str,
    pub(super) departure: Departure,
    #[expect(dead_code, reason = "printed in failures by Debug")]
    why: &'static str,
}

/// Kind of departure.
#[allow(
    dead_code,
    reason = "not every build has an engine with each kind of departure"
)]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// The constraint is refused as `Unsupported`.
    Refuses,
    /// Valid documents that contain this text are rejected.
    RejectsValid(&'static str),
    /// Invalid documents that contain this text, or prefixes of them, are accepted.
    AcceptsInvalid(&'static str),
}

impl Known {
    pub(super) fn refuses(&self, workload: &str) -> bool {
        self.workload == workload && self.departure == Departure::Refuses
    }

    pub(super) fn is_about(&self, workload: &Workload, instance: &Instance) -> bool {
        let text = &instance.text;
        self.workload == workload.name
            && match self.departure {
                Departure::Refuses => false,
                Departure::RejectsValid(part) => instance.valid && text.contains(part),
                Departure::AcceptsInvalid(part) => !instance.valid && text.contains(part),
            }
    }
}

const fn known(
    engine: EngineName,
    workload: &'static str,
    departure: Departure,
    why: &'static str,
) -> Known {
    Known {
        engine,
        workload,
        departure,
        why,
    }
}

const BOUNDED: &str = "bounded strings and arrays";
const NO_GRAMMARS: &str = "the crate compiles regular expressions only";
const NO_ESCAPES: &str = "xgrammar compiles a string with a length to a repetition of characters without quotes and backslashes";
const RAW_CONTROLS: &str = "xgrammar accepts raw control characters in a string with a length, which JSON requires to be escaped";
const ONE_BLANK: &str = "outlines-core allows at most one space as white space";
const FIRST_WINS: &str = "outlines-core's automaton prefers the first alternative: later ones that start with it are unreachable";

pub(super) const KNOWN: &[Known] = &[
    known(
        EngineName::Guidance,
        "sql in ebnf",
        Departure::Refuses,
        "llguidance supports Lark, not EBNF and GBNF",
    ),
    known(
        EngineName::Xgrammar,
        BOUNDED,
        Departure::RejectsValid(r"a\nb"),
        NO_ESCAPES,
    ),
    known(
        EngineName::Xgrammar,
        BOUNDED,
        Departure::AcceptsInvalid("a\tb"),
        RAW_CONTROLS,
    ),
    known(
        EngineName::XgrammarCpp,
        BOUNDED,
        Departure::RejectsValid(r"a\nb"),
        NO_ESCAPES,
    ),
    known(
        EngineName::XgrammarCpp,
        BOUNDED,
        Departure::AcceptsInvalid("a\tb"),
        RAW_CONTROLS,
    ),
    known(
        EngineName::Auto,
        BOUNDED,
        Departure::RejectsValid(r"a\nb"),
        NO_ESCAPES,
    ),
    known(
        EngineName::Auto,
        BOUNDED,
        Departure::AcceptsInvalid("a\tb"),
        RAW_CONTROLS,
    ),
    known(
        EngineName::Outlines,
        "sql in lark",
        Departure::Refuses,
        NO_GRAMMARS,
    ),
    known(
        EngineName::Outlines,
        "sql in ebnf",
        Departure::Refuses,
        NO_GRAMMARS,
    ),
    known(
        EngineName::Outlines,
        "any object",
        Departure::Refuses,
        "vLLM refuses it for outlines, which needs a schema",
    ),
    known(
        EngineName::Outlines,
        "brief profile",
        Departure::RejectsValid("\n  "),
        ONE_BLANK,
    ),
    known(
        EngineName::Outlines,
        "nested profile",
        Departure::RejectsValid("\n  "),
        ONE_BLANK,
    ),
    known(
        EngineName::Outlines,
        "recursive tree",
        Departure::RejectsValid("\n  "),
        ONE_BLANK,
    ),
    known(
        EngineName::Outlines,
        BOUNDED,
        Departure::RejectsValid("\n  "),
        ONE_BLANK,
    ),
    known(
        EngineName::Outlines,
        "nested profile",
        Departure::RejectsValid("+01:00"),
        "outlines-core's times end in Z or nothing",
    ),
    known(
        EngineName::Outlines,
        "nested profile",
        Departure::AcceptsInvalid("\"age\":-1"),
        "outlines-core ignores minimum",
    ),
    known(
        EngineName::Outlines,
        "nested choice",
        Departure::RejectsValid("yes, but"),
        FIRST_WINS,
    ),
    known(
        EngineName::Outlines,
        "nested choice",
        Departure::RejectsValid("no: "),
        FIRST_WINS,
    ),
];
