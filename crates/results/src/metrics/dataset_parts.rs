//! Figures of each dataset of a mixed run.

use serde::Serialize;

use super::ArmMetrics;
use super::quality::Quality;
use sobench_core::case::DATASET_TAG;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsOptions;

/// The figures of one dataset.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct DatasetPart {
    /// The name of the dataset.
    pub name: String,
    pub metrics: ArmMetrics,
    pub quality: Quality,
}

/// The figures by dataset, in the order of their first requests; empty if requests have no dataset
/// tag.
pub fn dataset_parts(
    samples: &[Sample<'_>],
    duration_ns: u64,
    options: &MetricsOptions,
) -> Vec<DatasetPart> {
    let mut names: Vec<&str> = Vec::new();
    for name in samples.iter().filter_map(dataset) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let part = |name: &str| {
        let members: Vec<Sample<'_>> = samples
            .iter()
            .filter(|sample| dataset(sample) == Some(name))
            .copied()
            .collect();
        DatasetPart {
            name: name.to_owned(),
            metrics: ArmMetrics::new(&members.iter().collect::<Vec<_>>(), duration_ns, options),
            quality: Quality::new(&members),
        }
    };
    names.into_iter().map(part).collect()
}

fn dataset<'a>(sample: &Sample<'a>) -> Option<&'a str> {
    sample
        .request_input()
        .tags
        .iter()
        .find_map(|tag| tag.strip_prefix(DATASET_TAG))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_cases};

    #[test]
    fn each_dataset_has_its_own_figures() {
        let invalid = Verdict::Invalid {
            reason: Reason::Choice,
        };
        let run = [
            test_request(),
            TestRequest {
                verdict: invalid,
                chunks: vec![40, 50],
                ..test_request()
            },
            test_request(),
        ];
        let tag = |index: usize, case: &mut sobench_core::case::Case| {
            case.tags = vec![
                "x".into(),
                format!("{DATASET_TAG}{}", if index == 1 { "json" } else { "regex" }),
            ];
        };
        let found = with_cases(&run, tag, |samples| {
            dataset_parts(samples, 1_000_000_000, &MetricsOptions::default())
        });
        let rates: Vec<_> = found
            .iter()
            .map(|part| {
                (
                    part.name.as_str(),
                    part.metrics.requests,
                    part.quality.valid,
                    part.metrics.latency.ttft_ms.mean,
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
                |samples| dataset_parts(samples, 1, &MetricsOptions::default()).len()
            ),
            0
        );
    }
}
