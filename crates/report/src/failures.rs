//! The failing cases of a run as JSON Lines. Contract: `schemas/contracts/failures.schema.json`.

use std::io::Write;

use serde_json::json;

use super::format::put;
use super::view::{TestStatus, View, failing_as};
use sobench_core::error::Result;
use sobench_results::metrics::Sample;

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
        put(
            out,
            &line(view, sample, name, &(view.answer)(place)?.text()),
        )?;
        count += 1;
    }
    Ok(count)
}

fn line(view: &View<'_>, sample: &Sample<'_>, failing_as: &'static str, answer: &str) -> String {
    let case = sample.case();
    let failure = json!({
        "case": case.id,
        "arm": case.arm,
        "tags": case.tags,
        // The reason, or the outcome.
        "failing_as": failing_as,
        "words": TestStatus::new(sample).message(),
        "constraint": case.constraint,
        "prompt": case.prompt,
        "output_len": case.output_len,
        "outcome": sample.outcome(),
        "verdict": sample.verdict(),
        "finish_reason": sample.finish_reason(),
        "answer": answer,
        // Shell line that sends the request again, without secrets; `null` where there is none.
        "curl": view.resend.and_then(|resend| resend.line(&case).ok()),
    });
    format!("{failure}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::case::Arm;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_results::metrics::testing::{TestRequest, test_request};
    use sobench_results::record::testing::record;

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
