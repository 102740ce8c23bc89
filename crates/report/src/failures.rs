//! The failing cases of a run as JSON Lines. Contract: `schemas/contracts/failures.schema.json`.

use std::io::Write;
use std::sync::Arc;

use super::format::put;
use super::json;
use super::view::{TestStatus, View, failing_as};
use sobench_core::case::{Arm, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::json_struct;
use sobench_core::observation::Outcome;
use sobench_core::verdict::Verdict;
use sobench_facts::Sample;

/// Writes a line for every failing case, in plan order. Returns their number.
///
/// # Errors
/// An answer cannot be read, or the output cannot be written.
pub fn write(view: &View<'_>, out: &mut dyn Write) -> Result<usize> {
    let mut count = 0;
    for (place, sample) in view.samples.iter().enumerate() {
        let Some(name) = failing_as(sample) else {
            continue;
        };
        let answer = (view.answer)(place)?;
        let answer = answer.text();
        let failure = Failure::new(view, sample, name, &answer);
        put(out, &format!("{}\n", json::to_value(failure)))?;
        count += 1;
    }
    Ok(count)
}

json_struct! {
    /// A failing case.
    struct Failure<'a> = |
        view: &View<'_>, sample: &Sample<'a>, failing_as: &'static str, answer: &'a str
    | [
        let case = sample.case();
        let curl = view.resend.and_then(|resend| resend.line(&case).ok());
    ] {
        case: String = case.id,
        arm: Arm = case.arm,
        tags: Vec<String> = case.tags,
        /// The reason, or the outcome.
        failing_as: &'static str = failing_as,
        words: String = TestStatus::new(sample).message(),
        constraint: Option<Arc<Constraint>> = case.constraint,
        prompt: Prompt = case.prompt,
        output_len: u32 = case.output_len,
        outcome: &'a Outcome = sample.outcome(),
        verdict: &'a Verdict = sample.verdict(),
        finish_reason: Option<&'a str> = sample.finish_reason(),
        answer: &'a str = answer,
        /// Shell line that sends the request again, without secrets; `null` if there is no such line.
        curl: Option<String> = curl,
    }
}

/// The contract of a line.
pub fn contract() -> serde_json::Value {
    sobench_core::contract::written::<Failure<'_>>()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::case::Arm;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;

    const CONTRACT: &str = include_str!("../../../schemas/contracts/failures.schema.json");

    #[test]
    fn each_failing_case_is_a_line_that_keeps_the_contract() {
        let invalid = Verdict::Invalid {
            reason: Reason::NotJson {
                message: "odd".into(),
                byte: 1,
            },
        };
        let refused = Outcome::Rejected {
            status: 400,
            body: "no\n".into(),
            advice: None,
        };
        let run = [
            test_request(),
            TestRequest {
                verdict: invalid.clone(),
                text: "{\n\u{2028}",
                ..test_request()
            },
            TestRequest {
                arm: Arm::Control,
                verdict: invalid,
                ..test_request()
            },
            TestRequest {
                outcome: refused,
                verdict: Verdict::NotScored {
                    why: NotScored::Refused,
                },
                finish_reason: None,
                ..test_request()
            },
        ];
        let mut out = Vec::new();
        let count = with_view(&run, record(), |view| write(&view, &mut out)).unwrap();
        let lines: Vec<Value> = String::from_utf8(out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!((count, lines.len()), (2, 2));
        assert_eq!(
            (&lines[0]["failing_as"], &lines[0]["answer"]),
            (&"not_json".into(), &"{\n\u{2028}".into())
        );
        assert_eq!(
            (&lines[1]["failing_as"], &lines[1]["words"]),
            (&"rejected".into(), &"HTTP 400: no\n".into())
        );
        let contract: Value = serde_json::from_str(CONTRACT).unwrap();
        jsonschema::draft202012::meta::validate(&contract).unwrap();
        let validator = jsonschema::draft202012::new(&contract).unwrap();
        for line in &lines {
            let errors: Vec<String> = validator
                .iter_errors(line)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        let mut short = lines[0].clone();
        short.as_object_mut().unwrap().remove("answer");
        assert!(
            !validator.is_valid(&short),
            "the contract rejects a missing member"
        );
    }
}
