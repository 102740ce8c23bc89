//! A run of several datasets, taken apart: the figures of each of them. Knows no rendering.

use serde::Serialize;

use super::quality::Quality;
use super::{ArmMetrics, MetricsOptions, Sample};
use sobench_core::case::DATASET_TAG;

/// One dataset's requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The dataset's name.
    pub name: String,
    pub metrics: ArmMetrics,
    pub quality: Quality,
}

/// The datasets of a run by the order of their first requests; none where requests are not tagged
/// with theirs.
pub fn parts(samples: &[Sample<'_>], duration_ns: u64, options: &MetricsOptions) -> Vec<Part> {
    let mut names: Vec<&str> = Vec::new();
    for name in samples.iter().filter_map(dataset) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let part = |name: &str| {
        let members: Vec<Sample<'_>> = samples
            .iter()
            .filter(|it| dataset(it) == Some(name))
            .copied()
            .collect();
        Part {
            name: name.to_owned(),
            metrics: ArmMetrics::of(&members.iter().collect::<Vec<_>>(), duration_ns, options),
            quality: Quality::of(&members),
        }
    };
    names.into_iter().map(part).collect()
}

fn dataset<'a>(sample: &Sample<'a>) -> Option<&'a str> {
    sample
        .question()
        .tags
        .iter()
        .find_map(|tag| tag.strip_prefix(DATASET_TAG))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_cases};
    use sobench_core::verdict::{Reason, Verdict};

    #[test]
    fn each_dataset_has_its_own_figures() {
        let invalid = Verdict::Invalid {
            reason: Reason::Choice,
        };
        let run = [
            made(),
            Made {
                verdict: invalid,
                chunks: vec![40, 50],
                ..made()
            },
            made(),
        ];
        let tag = |index: usize, case: &mut sobench_core::case::Case| {
            case.tags = vec![
                "x".into(),
                format!("{DATASET_TAG}{}", if index == 1 { "json" } else { "regex" }),
            ];
        };
        let found = with_cases(&run, tag, |samples| {
            parts(samples, 1_000_000_000, &MetricsOptions::default())
        });
        let rates: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.name.as_str(),
                    it.metrics.requests,
                    it.quality.valid,
                    it.metrics.latency.ttft_ms.mean,
                )
            })
            .collect();
        assert_eq!(
            rates,
            [("regex", 2, 2, Some(10.0)), ("json", 1, 0, Some(40.0))]
        );
        assert_eq!(
            with_cases(
                &run,
                |_, _| {},
                |samples| parts(samples, 1, &MetricsOptions::default()).len()
            ),
            0
        );
    }
}
