//! Where engines are known to depart from the shipped workloads, each with its reason. A departure that is gone fails the test.

use sobench::engine::EngineName;

use super::workloads::{Instance, Workload};

/// Engines that have a name and no code yet.
pub(super) const NOT_YET: [EngineName; 4] =
    [EngineName::Xgrammar, EngineName::XgrammarCpp, EngineName::Outlines, EngineName::Auto];

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
#[allow(dead_code, reason = "an engine that departs in every way is not always in the build")]
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

const fn known(engine: EngineName, workload: &'static str, departure: Departure, why: &'static str) -> Known {
    Known { engine, workload, departure, why }
}

pub(super) const KNOWN: &[Known] = &[known(
    EngineName::Guidance,
    "sql in ebnf",
    Departure::Refuses,
    "the crate reads Lark only; there is no reader of EBNF or GBNF in it",
)];
