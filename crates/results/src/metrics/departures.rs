//! Answers that depart from the API, by departure.

use schemars::JsonSchema;
use serde::Serialize;

use sobench_core::departure::{Departure, Departures, ForbiddenBy};
use sobench_core::verdict::Verdict;
use sobench_facts::Sample;

/// Answers that depart from the API in one way, over all arms.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DepartureCount {
    pub name: Departure,
    pub answers: usize,
    /// Those of them that are invalid.
    pub invalid: usize,
    pub forbidden_by: ForbiddenBy,
    /// The first of them, in plan order, and what it shows.
    pub first_request: String,
    pub example: String,
    /// What clients read; empty where they read what is judged.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub clients_read: &'static str,
}

/// The departures of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DepartureCounts {
    /// Answers with any departure.
    pub answers: usize,
    /// Invalid answers whose stream contradicts itself: the stream may have broken them, and not the
    /// model or the constraint.
    pub invalid_by_contradiction: usize,
    /// The most frequent first.
    pub by_name: Vec<DepartureCount>,
}

impl DepartureCounts {
    /// `None` if no answer departs.
    pub fn new(samples: &[Sample<'_>]) -> Option<Self> {
        let mut counts = Self::default();
        let departed = samples
            .iter()
            .filter_map(|sample| Some((sample, sample.departures()?)));
        for (sample, departures) in departed {
            let is_invalid = matches!(sample.verdict(), Verdict::Invalid { .. });
            counts.answers += 1;
            counts.invalid_by_contradiction += usize::from(is_invalid && departures.contradict());
            counts.add(sample, departures, usize::from(is_invalid));
        }
        // Stable: of equal counts, in the order of departures.
        counts.by_name.sort_by_key(|count| count.name);
        counts
            .by_name
            .sort_by_key(|count| std::cmp::Reverse(count.answers));
        (counts.answers > 0).then_some(counts)
    }

    fn add(&mut self, sample: &Sample<'_>, departures: &Departures, invalid: usize) {
        for (name, example) in departures.iter() {
            match self.by_name.iter_mut().find(|count| count.name == name) {
                Some(count) => {
                    count.answers += 1;
                    count.invalid += invalid;
                }
                None => self.by_name.push(DepartureCount {
                    name,
                    answers: 1,
                    invalid,
                    forbidden_by: name.forbidden_by(),
                    first_request: sample.id(),
                    example: example.to_owned(),
                    clients_read: name.clients_read(),
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::answer::Answer;
    use sobench_core::observation::Outcome;
    use sobench_facts::RequestTable;
    use sobench_facts::testing::test_request;

    #[test]
    fn departures_are_counted_by_name() {
        let mut table = RequestTable::default();
        let other_text = |answer: &mut Answer| answer.departures.add_other_text("a", "b");
        for (index, (reason, contradicts, outcome)) in [
            ("stop", false, Outcome::Completed),
            ("stop_1", false, Outcome::Completed),
            ("stop_2", true, Outcome::Completed),
            ("stop_3", true, Outcome::Cancelled),
        ]
        .into_iter()
        .enumerate()
        {
            let (case, mut observation, _) = test_request().parts(index);
            observation.finish_reason = Some(reason.to_owned());
            observation.outcome = outcome;
            if contradicts {
                other_text(&mut observation.answer);
            }
            assert!(table.push(&case, &observation, 0));
        }
        let counts = DepartureCounts::new(&table.samples()).unwrap();
        let by_name: Vec<_> = counts
            .by_name
            .iter()
            .map(|count| {
                (
                    count.name,
                    count.answers,
                    &*count.first_request,
                    &*count.example,
                )
            })
            .collect();
        assert_eq!(
            by_name,
            [
                (Departure::UnknownFinishReason, 2, "case-1", "stop_1"),
                (
                    Departure::OtherFinalText,
                    1,
                    "case-2",
                    "\"a\" in the deltas, \"b\" in the final text"
                ),
            ]
        );
        assert_eq!((counts.answers, counts.invalid_by_contradiction), (2, 0));
        assert_eq!(DepartureCounts::new(&table.samples()[..1]), None);
    }
}
