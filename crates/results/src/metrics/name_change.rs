//! Models and servers, as answers name them, that change during a run.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use sobench_core::answer::AnsweredBy;
use sobench_core::printable::{NAME_CHARS, printable};
use sobench_facts::Sample;
use sobench_notices::notice::{NameChange, NameCount, NameKind};

/// Names that are listed.
const MAX_LISTED: usize = 4;

/// The first change of each kind of name.
pub(super) fn all(samples: &[Sample<'_>]) -> Vec<NameChange> {
    let mut named: Vec<_> = samples
        .iter()
        .filter_map(|sample| Some((sample, sample.answered_by()?)))
        .collect();
    named.sort_by_key(|(sample, _)| (sample.request_times().sent_ns, sample.case_index()));
    [NameKind::Model, NameKind::SystemFingerprint]
        .into_iter()
        .filter_map(|kind| change(kind, &named))
        .collect()
}

/// The change among requests of one model, in the order of sending: requests may ask for several.
fn change(kind: NameKind, named: &[(&Sample<'_>, &AnsweredBy)]) -> Option<NameChange> {
    let mut by_requested: BTreeMap<Option<&str>, Vec<(&Sample<'_>, &str)>> = BTreeMap::new();
    for (sample, answered_by) in named {
        let name = match kind {
            NameKind::Model => &answered_by.model,
            NameKind::SystemFingerprint => &answered_by.system_fingerprint,
        };
        if !name.is_empty() {
            let requested = sample.request_input().model.as_deref();
            by_requested
                .entry(requested)
                .or_default()
                .push((sample, name));
        }
    }
    by_requested.into_values().find_map(|answers| {
        let first_name = answers.first()?.1;
        let (first_other, _) = answers.iter().find(|(_, name)| *name != first_name)?;
        let mut counts: IndexMap<&str, usize> = IndexMap::new();
        for (_, name) in &answers {
            *counts.entry(name).or_default() += 1;
        }
        let switches = answers.windows(2).filter(|pair| pair[0].1 != pair[1].1);
        let others = counts.len().saturating_sub(MAX_LISTED);
        Some(NameChange {
            of: kind,
            request: printable(&first_other.id(), NAME_CHARS),
            is_mixed: switches.count() > 1,
            names: counts
                .iter()
                .take(MAX_LISTED)
                .map(|(name, answers)| NameCount {
                    name: printable(name, NAME_CHARS),
                    answers: *answers,
                })
                .collect(),
            others,
            answers: answers.len(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::case::Case;
    use sobench_core::observation::Outcome;
    use sobench_facts::RequestTable;
    use sobench_facts::testing::{TestRequest, test_request};

    /// The sentences on answers that name these models, in the order of sending, to requests for the
    /// model `requested`.
    fn sentences<'a>(answers: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Vec<String> {
        let mut table = RequestTable::default();
        let answers: Vec<_> = answers.into_iter().collect();
        let last = answers.len() as u64;
        for (index, (model, requested)) in answers.into_iter().enumerate() {
            // The last request of the plan is sent first.
            let sent = last - index as u64;
            let request = TestRequest {
                sent: Some(sent),
                chunks: vec![sent + 10],
                end: Some(sent + 11),
                ..test_request()
            };
            let (case, mut observation, _) = request.parts(index);
            model.clone_into(&mut observation.answer.answered_by.model);
            if model == "failed" {
                observation.outcome = Outcome::Cancelled;
            }
            let model = requested.map(Into::into);
            assert!(table.push(&Case { model, ..case }, &observation, 0));
        }
        let changes = all(&table.samples());
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn changes_are_found_in_the_order_of_sending() {
        let of = |names: &[&'static str]| sentences(names.iter().map(|name| (*name, None)));
        assert_eq!(
            of(&["b", "b", "a", "a", "a"]),
            ["the server's model changed at request case-1: from a to b (2 of 5 answers)"]
        );
        assert_eq!(
            of(&["b", "a", "b", "a"]),
            [
                "the server's model is not always the same: answers come from 2 of them, the second from request case-2 on: a (2), b (2)"
            ]
        );
        assert_eq!(
            of(&["f", "e", "d", "c", "b", "a"]),
            [
                "the server's model is not always the same: answers come from 6 of them, the second from request case-4 on: a (1), b (1), c (1), \
              d (1) and 2 others"
            ]
        );
        for same in [
            &["a", "a"][..],
            &["a"],
            &[],
            &["", "a", ""],
            &["a", "failed"],
        ] {
            assert_eq!(of(same), Vec::<String>::new(), "{same:?}");
        }
        assert_eq!(of(&["b\u{1b}", "a"])[0].matches('\u{1b}').count(), 0);
    }

    #[test]
    fn requests_for_several_models_have_no_change() {
        let own = [("a", Some("a")), ("b", Some("b")), ("a", Some("a"))];
        assert_eq!(sentences(own), Vec::<String>::new());
        assert_eq!(
            sentences(own.into_iter().chain([("c", Some("b"))])),
            ["the server's model changed at request case-1: from c to b (1 of 2 answers)"]
        );
    }
}
