//! Before the clock starts: does the server apply the constraints that the run is about to send. Knows no question.

use std::time::Duration;

use super::sending::Sending;
use crate::case::{Arm, Case};
use crate::constraint::{Constraint, GrammarDialect};
use crate::error::{Kind as Fault, Result};
use crate::plan::RunPlan;
use crate::preflight::ask::{DEFAULT_OUTPUT_LEN, DEFAULT_TIMEOUT};
use crate::preflight::gate::gate;
use crate::preflight::{self, Extent, Kind, Options, Preflight};
use crate::progress;

/// Asks about the kinds that the run sends, in its dialect; says what the reader of the result has to know. A server of our own is
/// not asked, and one of which nothing can be learnt is measured all the same.
///
/// # Errors
/// The server drops a constraint without a word, and the user did not allow that; or the user stopped it.
pub(super) async fn before_run(plan: &RunPlan, sending: &Sending<'_>, cases: &[Case]) -> Result<Vec<String>> {
    let kinds = kinds(cases);
    let (Some(unenforced), false, false) = (plan.constraint.preflight, sending.session.is_embedded(), kinds.is_empty()) else {
        return Ok(Vec::new());
    };
    let options = options(plan, sending, kinds, notation(cases).unwrap_or(sending.session.grammar_dialect));
    let asked = preflight::run(&sending.session.client, &options, sending.stop.clone(), |_| {}).await;
    let found = match asked {
        Ok(found) => found,
        Err(error) if error.kind == Fault::Environment => {
            let notice = format!("whether the constraint holds is not known: {}", error.what);
            progress::warn(&notice);
            return Ok(vec![notice]);
        }
        Err(error) => return Err(error),
    };
    let mut notices = gate(&found, unenforced)?;
    notices.iter().for_each(|notice| progress::warn(notice));
    notices.extend(proved(&found));
    Ok(notices)
}

/// What was proved, for the record.
fn proved(found: &Preflight) -> Option<String> {
    let best = found.recommendation()?;
    let kinds: Vec<&str> = best.enforced.iter().map(|kind| kind.name()).collect();
    Some(format!("preflight, {} requests before the run: {} enforced in {}", found.requests, kinds.join(", "), best.dialect))
}

fn options(plan: &RunPlan, sending: &Sending<'_>, kinds: Vec<Kind>, notation: GrammarDialect) -> Options {
    let request = sending.request;
    Options {
        backend: plan.backend,
        model: request.model.clone(),
        kinds,
        dialects: vec![request.dialect],
        notation,
        seed: plan.dataset.seed,
        output_len: DEFAULT_OUTPUT_LEN,
        stream: request.stream,
        guided_decoding_backend: request.guided_decoding_backend.clone(),
        extra_body: request.extra_body.clone(),
        timeout: Duration::min(plan.traffic.request_timeout, DEFAULT_TIMEOUT),
        extent: Extent::BeforeRun,
    }
}

/// The kinds that are sent, each once, in the order in which they are asked.
fn kinds(cases: &[Case]) -> Vec<Kind> {
    let is_sent = |kind: &Kind| sent(cases).any(|constraint| Kind::of(constraint) == *kind);
    Kind::ALL.into_iter().filter(is_sent).collect()
}

/// The notation of the first grammar that is sent.
fn notation(cases: &[Case]) -> Option<GrammarDialect> {
    sent(cases).find_map(|constraint| match constraint {
        Constraint::Grammar { dialect, .. } => Some(*dialect),
        _ => None,
    })
}

fn sent(cases: &[Case]) -> impl Iterator<Item = &Constraint> {
    cases.iter().filter(|case| case.arm == Arm::Constrained).filter_map(|case| case.constraint.as_deref())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::case::Prompt;

    fn case(constraint: Constraint, arm: Arm) -> Case {
        Case {
            id: "t-0".to_owned(),
            prompt: Prompt::Text("?".into()),
            prompt_tokens: None,
            constraint: Some(Arc::new(constraint)),
            arm,
            output_len: 8,
            completion: None,
            tags: Vec::new(),
            grammar_oracle: None,
        }
    }

    #[test]
    fn only_what_is_sent_is_asked() {
        let regex = || Constraint::Regex("a".into());
        let lark = Constraint::Grammar { dialect: GrammarDialect::Lark, text: "start: \"a\"".into() };
        let cases = [case(lark, Arm::Constrained), case(regex(), Arm::Constrained), case(regex(), Arm::Constrained)];
        assert_eq!((kinds(&cases), notation(&cases)), (vec![Kind::Regex, Kind::Grammar], Some(GrammarDialect::Lark)));
        let control = [case(regex(), Arm::Control)];
        assert_eq!((kinds(&control), notation(&control)), (vec![], None));
    }
}
