//! The cases that a run with `--duration` reached.

use sobench_core::case::Case;
use sobench_core::schedule::Until;
use sobench_data::dataset::DatasetName;
use sobench_notices::notice::{BenchNotice, Notice};

/// The case of request `index`, and its id. Cases repeat; a repeated case has its lap in its id,
/// such as `json-17#2`.
pub(super) fn asked(cases: &[Case], index: usize) -> Option<(&Case, String)> {
    let case = cases.get(index.checked_rem(cases.len())?)?;
    let lap = 1 + index / cases.len();
    Some((
        case,
        if lap == 1 {
            case.id.clone()
        } else {
            format!("{}#{lap}", case.id)
        },
    ))
}

/// Notice on a run that `--duration` ended.
pub(super) fn notice(
    dataset: DatasetName,
    until: Until,
    cases: usize,
    count: usize,
) -> Option<Notice> {
    let after_s = until.time()?.as_secs_f64();
    let (requests, prepared) = (count, cases);
    let notice = if count <= cases {
        BenchNotice::DurationEnded {
            after_s,
            requests,
            prepared,
        }
    } else {
        BenchNotice::DurationEndedAfterLaps {
            after_s,
            requests,
            prepared,
            unique_schemas: dataset == DatasetName::JsonUnique,
        }
    };
    Some(notice.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use sobench_core::case::Prompt;

    fn cases(count: usize) -> Vec<Case> {
        let case =
            |index: usize| Case::new(format!("json-{index}"), Prompt::Text("?".into()), None, 8);
        (0..count).map(case).collect()
    }

    #[test]
    fn cases_repeat_in_laps() {
        let cases = cases(3);
        let ids: Vec<String> = (0..8)
            .map(|index| asked(&cases, index).unwrap().1)
            .collect();
        assert_eq!(
            ids.join(" "),
            "json-0 json-1 json-2 json-0#2 json-1#2 json-2#2 json-0#3 json-1#3"
        );
        assert_eq!(asked(&cases, 7).unwrap().0.id, "json-1");
        assert!(asked(&[], 0).is_none());
    }

    #[test]
    fn a_run_ended_by_duration_has_a_notice() {
        let ten = Duration::from_secs(10);
        let notice_after = |until, count| {
            notice(DatasetName::JsonUnique, until, 100, count).map(|notice| notice.to_string())
        };
        assert_eq!(notice_after(Until::LastCase, 100), None);
        assert_eq!(
            notice_after(Until::Time(ten), 40).unwrap(),
            "sending ended after at most 10 s (--duration): 40 of 100 prepared requests were sent"
        );
        let again = notice_after(Until::Cycling(ten), 250).unwrap();
        assert!(
            again.contains("2.5 times") && again.contains("no schema was new"),
            "{again}"
        );
        assert!(
            !notice(DatasetName::Json, Until::Cycling(ten), 100, 250)
                .unwrap()
                .to_string()
                .contains("schema")
        );
    }
}
