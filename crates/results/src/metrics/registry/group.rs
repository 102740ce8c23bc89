//! Groups of requests, and their figures.

use indexmap::IndexSet;
use schemars::JsonSchema;
use serde::Serialize;

use super::{RunSamples, Values};
use sobench_core::case::{Arm, DATASET_TAG};
use sobench_core::tools::ToolChoice;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;

/// The requests that have everything that is set: those of an arm, of a dataset of a mix, of a kind of
/// constraint, with a tag, or with a `tool_choice`.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Group {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arm: Option<Arm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<&'static str>,
}

impl Group {
    /// The requests of an arm.
    pub fn of_arm(arm: Arm) -> Self {
        Self {
            arm: Some(arm),
            ..Self::default()
        }
    }

    /// Whether a request is in the group.
    pub fn has(&self, sample: &Sample<'_>) -> bool {
        self.arm.is_none_or(|arm| sample.arm() == arm)
            && self
                .dataset
                .as_deref()
                .is_none_or(|name| dataset(sample) == Some(name))
            && self.kind.is_none_or(|kind| self::kind(sample) == kind)
            && self
                .tool_choice
                .is_none_or(|choice| tool_choice(sample) == Some(choice))
            && self
                .tag
                .as_ref()
                .is_none_or(|tag| sample.request_input().tags.contains(tag))
    }

    /// Its requests.
    pub fn members<'s, 'a>(&self, samples: &'s [Sample<'a>]) -> Vec<&'s Sample<'a>> {
        samples.iter().filter(|sample| self.has(sample)).collect()
    }
}

/// The dataset of a request of a mix.
pub(crate) fn dataset<'a>(sample: &Sample<'a>) -> Option<&'a str> {
    let mut tags = sample.request_input().tags.iter();
    tags.find_map(|tag| tag.strip_prefix(DATASET_TAG))
}

/// The kind of a request's constraint.
pub fn kind(sample: &Sample<'_>) -> &'static str {
    let constraint = sample.constraint();
    constraint.map_or("none", |constraint| constraint.kind())
}

/// The `tool_choice` of a request with tools.
pub(crate) fn tool_choice(sample: &Sample<'_>) -> Option<&'static str> {
    Some(sample.constraint()?.tools()?.choice.name())
}

/// Whether a rate that a table shows of other arms may count a request.
fn has_rates(sample: &Sample<'_>) -> bool {
    sample.arm().is_judged() || sample.grade().is_some() || sample.has_reasoning()
}

/// The groups that every report has figures of: the arms, if there are several or the only one is not constrained, the datasets of a mix
/// in the order of their first requests, and the choices of tools.
pub fn groups_of_run(arms: &[Arm], samples: &[Sample<'_>]) -> Vec<Group> {
    let mut groups = Vec::new();
    let is_whole = |arm: Arm| arm == Arm::Constrained || !samples.iter().any(has_rates);
    if !matches!(arms, [only] if is_whole(*only)) {
        groups.extend(arms.iter().map(|arm| Group::of_arm(*arm)));
    }
    let datasets: IndexSet<&str> = samples.iter().filter_map(dataset).collect();
    groups.extend(datasets.into_iter().map(|name| Group {
        dataset: Some(name.to_owned()),
        ..Group::default()
    }));
    let has_choice = |choice: &str| {
        let mut samples = samples.iter();
        samples.any(|sample| tool_choice(sample) == Some(choice))
    };
    let choices = ToolChoice::NAMES
        .into_iter()
        .filter(|choice| has_choice(choice));
    groups.extend(choices.map(|choice| Group {
        tool_choice: Some(choice),
        ..Group::of_arm(Arm::Constrained)
    }));
    groups
}

/// The figures of a group.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct GroupValues {
    #[serde(flatten)]
    pub group: Group,
    #[serde(rename = "metrics")]
    pub values: Values,
}

impl GroupValues {
    /// Computes every metric of a group; `None` if it has no requests.
    pub fn new(
        group: Group,
        samples: &[Sample<'_>],
        duration_ns: u64,
        options: &MetricsSettings,
    ) -> Option<Self> {
        let members = group.members(samples);
        let run = RunSamples::new(&members, duration_ns, options, None).of_arm(group.arm);
        (!members.is_empty()).then(|| Self {
            values: Values::new(&run),
            group,
        })
    }
}
