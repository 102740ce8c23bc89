//! Where engines are known to depart from the shipped workloads, each with its reason. A departure
//! that is gone fails the test.

use sobench_engine::EngineName;

use super::workloads::{Instance, Workload};

/// One departure of one engine on one workload.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) engine: EngineName,
    workload: &'static str,
    pub(super) departure: Departure,
    #[expect(dead_code, reason = "read in the failure's words, through Debug")]
    why: &'static str,
}

/// In what way.
#[allow(
    dead_code,
    reason = "an engine that departs in every way is not always in the build"
)]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// The constraint is `Unsupported`.
    Refuses,
    /// Valid documents that contain this are not allowed.
    RejectsValid(&'static str),
    /// Invalid documents that contain this, or the beginning of one, may end.
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
const NO_ESCAPES: &str = "xgrammar writes a string with a length as so many characters that are no quotes and no backslashes";
const RAW_CONTROLS: &str =
    "and control characters are among them, although JSON has them escaped only";
const ONE_BLANK: &str = "outlines-core's white space is one blank or none";
const FIRST_WINS: &str = "outlines-core's automaton prefers the first alternative: one that begins with an earlier one is lost";

pub(super) const KNOWN: &[Known] = &[
    known(
        EngineName::Guidance,
        "sql in ebnf",
        Departure::Refuses,
        "llguidance reads Lark; it has no reader of EBNF or GBNF",
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
        "outlines-core passes over minimum",
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
