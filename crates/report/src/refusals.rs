//! Constraints that servers refused, and the keywords that their messages name.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use indexmap::IndexMap;
use sobench_backend::refused_keyword;
use sobench_core::error_message::error_message;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS};
use sobench_facts::Sample;
use sobench_results::to_explain::is_refused;

/// A refusal of a constraint.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The status and the server's words.
    pub message: Arc<str>,
    /// The keyword of the schema that they name.
    pub keyword: Option<Arc<str>>,
}

impl Refused {
    /// The refusal of the request's constraint. A refusal for load does not count.
    pub fn new(sample: &Sample<'_>) -> Option<Self> {
        let message = match sample.outcome() {
            Outcome::Rejected { status, .. } if *status == TOO_MANY_REQUESTS => return None,
            Outcome::Rejected { status, body, .. } => format!("{status}: {}", error_message(body)),
            Outcome::Unsupported { what } => what.clone(),
            _ => return None,
        };
        let keyword = refused_keyword(&message, sample.constraint()?);
        Some(Self {
            message: message.into(),
            keyword: keyword.map(Into::into),
        })
    }
}

/// The refusal of the only constraint of a run, if the server refused each request that sent it.
pub fn of_only_constraint(samples: &[Sample<'_>]) -> Option<Refused> {
    let mut constrained = samples
        .iter()
        .filter(|sample| sample.arm().sends_constraint());
    let first = constrained.next()?;
    let is_refused = |sample: &Sample<'_>| {
        sample.outcome().content_refusal().is_some() && sample.constraint() == first.constraint()
    };
    (is_refused(first) && constrained.all(is_refused)).then(|| Refused::new(first))?
}

/// The number of refused constraints, and a sum by keyword, the most frequent first. `None` instead
/// of a sum without a named keyword. Each refusal has the identity of its constraint; the first one
/// counts.
pub fn sum_by_keyword<K: Eq + Hash>(
    refusals: impl IntoIterator<Item = (K, Option<Arc<str>>)>,
) -> (usize, Option<String>) {
    let mut known = HashSet::new();
    let mut counts: IndexMap<Option<Arc<str>>, usize> = IndexMap::new();
    for (constraint, keyword) in refusals {
        *counts.entry(keyword).or_default() += usize::from(known.insert(constraint));
    }
    counts.retain(|_, count| *count > 0);
    counts.sort_by_cached_key(|keyword, count| (keyword.is_none(), Reverse(*count)));
    let count = |(keyword, count): (&Option<Arc<str>>, &usize)| match keyword {
        Some(keyword) => format!("{count} for `{keyword}`"),
        None => format!("{count} without a named keyword"),
    };
    let is_named = counts.keys().any(Option::is_some);
    let sum = is_named.then(|| counts.iter().map(count).collect::<Vec<_>>().join(", "));
    (known.len(), sum)
}

/// A sentence on the constraints of a run that the server refused.
pub(crate) fn sentence(samples: &[Sample<'_>]) -> Option<String> {
    let mut known = HashSet::new();
    let refused = samples
        .iter()
        .filter(|sample| sample.arm().sends_constraint() && is_refused(sample));
    let refusals = refused.filter_map(|sample| {
        let constraint = sample.constraint()?;
        let is_new = known.insert(Arc::as_ptr(constraint));
        is_new.then(|| Some((constraint.fingerprint(), Refused::new(sample)?.keyword)))?
    });
    let (count, sum) = sum_by_keyword(refusals);
    let plural = if count == 1 { "" } else { "s" };
    let sum = sum.map_or_else(String::new, |sum| format!(": {sum}"));
    (count > 0).then(|| format!("{count} constraint{plural} refused{sum}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sobench_core::constraint::Constraint;

    use super::*;
    use crate::Report;
    use crate::view::View;
    use crate::view::testing::with_view;
    use sobench_core::case::Arm;
    use sobench_facts::testing::{TestRequest, test_request, with_cases};
    use sobench_plan::record::testing::record;

    /// What `found` finds in requests that are refused with these keywords in their schemas, statuses
    /// and messages. One more request is answered.
    fn of_refused<T>(
        refused: &[(&str, u16, &str, Arm)],
        found: impl FnOnce(&[Sample<'_>]) -> T,
    ) -> T {
        let request = |(_, status, body, arm): &(&str, u16, &str, Arm)| TestRequest {
            arm: *arm,
            outcome: Outcome::Rejected {
                status: *status,
                body: (*body).to_owned(),
                advice: None,
            },
            ..test_request()
        };
        let answered = [test_request()];
        let run: Vec<_> = refused.iter().map(request).chain(answered).collect();
        let set_schema = |index: usize, case: &mut sobench_core::case::Case| {
            let schema = refused
                .get(index)
                .map(|(keyword, ..)| json!({ *keyword: 3 }));
            case.constraint = schema.map(|schema| Arc::new(Constraint::JsonSchema(schema.into())));
        };
        with_cases(&run, set_schema, found)
    }

    #[test]
    fn refused_constraints_are_summed_by_keyword() {
        let arm = Arm::Constrained;
        let found = of_refused(
            &[
                ("pattern", 400, "pattern: no", arm),
                ("minLength", 422, "no such keyword: 'minLength'", arm),
                ("minLength", 400, "another message", arm),
                ("required", 400, "not enough memory", arm),
                ("maxItems", 429, "maxItems: slow down", arm),
                ("maxItems", 401, "maxItems: no key", arm),
                ("minItems", 400, "minItems: no", Arm::Control),
            ],
            sentence,
        );
        let expected =
            "3 constraints refused: 1 for `pattern`, 1 for `minLength`, 1 without a named keyword";
        assert_eq!(found.as_deref(), Some(expected));
        let one = of_refused(&[("maxLength", 400, "no", arm)], sentence);
        assert_eq!(one.as_deref(), Some("1 constraint refused"));
        assert_eq!(of_refused(&[], sentence), None);
        let keyword = |name: &str| Some(name.into());
        let refusals = [
            (1, None),
            (2, keyword("b")),
            (3, keyword("a")),
            (4, keyword("a")),
            (4, None),
        ];
        let sum = "2 for `a`, 1 for `b`, 1 without a named keyword";
        assert_eq!(sum_by_keyword(refusals), (4, Some(sum.to_owned())));
    }

    #[test]
    fn the_refusal_of_the_only_constraint_is_found() {
        let arm = Arm::Constrained;
        let (no, control) = (
            ("pattern", 400, "no", arm),
            ("pattern", 400, "no", Arm::Control),
        );
        let found = |refused: &[_]| {
            let all_but_the_answer =
                |samples: &[Sample<'_>]| of_only_constraint(&samples[..samples.len() - 1]);
            of_refused(refused, all_but_the_answer).map(|refused| refused.message.to_string())
        };
        assert_eq!(
            found(&[control, no, ("pattern", 422, "other", arm)]).as_deref(),
            Some("400: no")
        );
        for others in [
            [no, ("minLength", 400, "no", arm)],
            [no, ("pattern", 429, "no", arm)],
            [no, ("pattern", 404, "no", arm)],
            [control, control],
        ] {
            assert_eq!(found(&others), None, "{others:?}");
        }
        assert!(
            of_refused(&[no], of_only_constraint).is_none(),
            "one has an answer"
        );
    }

    #[test]
    fn every_page_has_the_sum() {
        with_view(&[test_request()], record(), |view| {
            let sentence = "2 constraints refused: 2 for a keyword";
            let report = Report {
                refusals: Some(sentence.to_owned()),
                ..view.report.clone()
            };
            let view = View {
                report: &report,
                ..view
            };
            let html = crate::html::render(&view).unwrap();
            for page in [
                crate::text::render(&view),
                crate::markdown::render(&report),
                html,
            ] {
                assert!(page.contains(sentence), "{page}");
            }
        });
    }
}
