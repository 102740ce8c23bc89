//! A run as a test suite for CI, in JUnit's XML. The properties of the suite are the metrics of the
//! run, those of a test the metrics of its request, as pytest writes them.
//!
//! An invalid constrained answer is a failure, a refused or failed request is an error, and other
//! requests (the control arm among them) are skipped.

use std::io::Write;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::view::{TestStatus, View};
use crate::format;
use sobench_core::dates::iso_8601;
use sobench_core::error::Result;
use sobench_core::printable::cut;
use sobench_core::printable::printable_message;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_results::metrics::registry::{Figure, Metric, rates};

/// The unit of one test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JunitPer {
    #[default]
    Case,
    Dataset,
}

/// Bytes at most of an answer, or of a server's message.
const EXCERPT_MAX_BYTES: usize = 2000;

/// The date of a run without one: the schema requires a date.
const NO_DATE: &str = "1970-01-01T00:00:00";

impl JunitPer {
    /// Every value, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::Case, Self::Dataset];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Case => "case",
            Self::Dataset => "dataset",
        }
    }
}

/// Writes the suite.
///
/// # Errors
/// An answer cannot be read, or the output cannot be written.
pub fn write(view: &View<'_>, per: JunitPer, out: &mut dyn Write) -> Result<()> {
    let mut suite = empty_suite(view);
    match per {
        JunitPer::Dataset => {
            suite.add_test_case(whole(view));
        }
        JunitPer::Case => {
            for (place, sample) in view.samples.iter().enumerate() {
                suite.add_test_case(test(view, place, sample)?);
            }
        }
    }
    let mut report = Report::unnamed();
    report.add_test_suite(suite);
    format::put(
        out,
        &report
            .to_string()
            .expect("writing into memory does not fail"),
    )
}

/// The suite without its tests. Times are written here, since the crate writes milliseconds and a
/// zone.
fn empty_suite(view: &View<'_>) -> TestSuite {
    let record = &view.report.record;
    let mut suite = TestSuite::new(attribute(&format!(
        "{} on {}",
        record.server.model_id,
        dataset(view)
    )));
    let attributes = [
        ("id", "0".to_owned()),
        ("package", "sobench".to_owned()),
        ("hostname", "localhost".to_owned()),
        (
            "timestamp",
            iso_8601(&record.date()).unwrap_or_else(|| NO_DATE.to_owned()),
        ),
        ("time", seconds(view.report.metrics.duration_ns)),
    ];
    suite
        .extra
        .extend(attributes.map(|(name, value)| (name.into(), value.into())));
    let of_run = [
        ("sobench_version", Some(record.sobench_version.clone())),
        ("backend", Some(record.settings.backend.to_string())),
        ("base_url", Some(record.server.base_url.clone())),
        ("model", Some(record.server.model_id.clone())),
        ("dataset_sha256", Some(record.dataset.sha256.clone())),
        ("seed", Some(record.settings.dataset.seed.to_string())),
        ("partial", Some(view.report.partial.to_string())),
    ];
    suite.add_properties(
        of_run
            .into_iter()
            .filter_map(|(name, value)| Some(property(name, &value?))),
    );
    suite.add_properties(
        Figure::all_known(view.report.metrics.iter())
            .into_iter()
            .map(|(figure, value)| match figure.is_rate() {
                true => property(&format!("{figure}_percent"), &format!("{value:.4}")),
                false => property(&figure.to_string(), &value.to_string()),
            }),
    );
    suite.set_system_out("").set_system_err("");
    suite
}

fn property(name: &str, value: &str) -> Property {
    Property::new(name, attribute(value))
}

/// The value of a request in each metric in which it counts.
fn metrics_of(sample: &Sample<'_>, options: &MetricsSettings) -> Vec<Property> {
    let figures = Metric::ALL.iter().flat_map(|metric| Figure::all_of(metric));
    let known = figures.filter_map(|figure| {
        Some(property(
            &figure.to_string(),
            &figure.of_request(sample, options)?,
        ))
    });
    known.collect()
}

fn dataset<'a>(view: &View<'a>) -> &'a str {
    &view.report.record.settings.dataset.source.name
}

/// One request as a test.
fn test(view: &View<'_>, place: usize, sample: &Sample<'_>) -> Result<TestCase> {
    let timing = sample.request_times();
    let kind = sample
        .constraint()
        .map_or("none", |constraint| constraint.kind());
    let class = format!("{}.{kind}.{}", dataset(view), sample.arm().name());
    let taken_ns = timing
        .sent_ns
        .zip(timing.end_ns)
        .map_or(0, |(sent, end)| end.saturating_sub(sent));
    let status = match TestStatus::new(sample) {
        TestStatus::Passed => TestCaseStatus::success(),
        TestStatus::Skipped(why) => skipped(&why),
        TestStatus::Invalid(reason) => {
            let answer = format!("answer: {}", (view.answer)(place)?.text());
            unsuccessful(
                NonSuccessKind::Failure,
                reason.name(),
                &reason.to_string(),
                &answer,
            )
        }
        TestStatus::NoAnswer(message) => unsuccessful(
            NonSuccessKind::Error,
            sample.outcome().name(),
            &message,
            &message,
        ),
    };
    let mut test = test_case(&class, &sample.id(), taken_ns, status);
    test.add_properties(metrics_of(sample, &view.report.metrics.options));
    Ok(test)
}

/// The whole dataset as one test.
fn whole(view: &View<'_>) -> TestCase {
    let metrics = &view.report.metrics;
    let rate = metrics.values.rate(&rates::CORRECT_RATE).map_or_else(
        || "no correct rate".to_owned(),
        |rate| {
            format!(
                "correct rate {:.2} % ({:.2} to {:.2}), {} of {}",
                rate.percent, rate.low_percent, rate.high_percent, rate.hits, rate.of
            )
        },
    );
    let groups = metrics.findings.reasons.iter().chain(&metrics.failures);
    let lines: String = groups
        .map(|group| format!("{}: {}\n", group.name, group.count))
        .collect();
    let count = |counts: fn(&TestStatus<'_>) -> bool| {
        view.samples
            .iter()
            .filter(|sample| counts(&TestStatus::new(sample)))
            .count()
    };
    let invalid = count(|status| matches!(status, TestStatus::Invalid(_)));
    let unanswered = count(|status| matches!(status, TestStatus::NoAnswer(_)));
    let status = if invalid > 0 {
        let message = format!("{invalid} answers are invalid; {rate}");
        unsuccessful(NonSuccessKind::Failure, "invalid", &message, &lines)
    } else if unanswered > 0 {
        let message = format!("{unanswered} requests have no answer; {rate}");
        unsuccessful(NonSuccessKind::Error, "no_answer", &message, &lines)
    } else if count(|status| *status == TestStatus::Passed) == 0 {
        skipped("nothing was judged")
    } else {
        TestCaseStatus::success()
    };
    test_case("sobench", dataset(view), metrics.duration_ns, status)
}

fn test_case(class: &str, name: &str, taken_ns: u64, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(attribute(name), status);
    case.set_classname(attribute(class));
    case.extra.insert("time".into(), seconds(taken_ns).into());
    case
}

fn skipped(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(attribute(why));
    status
}

fn unsuccessful(kind: NonSuccessKind, name: &str, message: &str, text: &str) -> TestCaseStatus {
    let short = cut(text, EXCERPT_MAX_BYTES);
    let more = if short.len() < text.len() {
        format!("… ({} bytes)", text.len())
    } else {
        String::new()
    };
    let mut status = TestCaseStatus::non_success(kind);
    status
        .set_type(name)
        .set_message(attribute(message))
        .set_description(format!("{}{more}", allowed(short)));
    status
}

fn seconds(ns: u64) -> String {
    format!("{:.6}", ns as f64 / 1e9)
}

/// Foreign text in an attribute, which has one line.
fn attribute(text: &str) -> String {
    allowed(&printable_message(text))
}

/// Replaces characters that XML 1.0 forbids or discourages. The crate would remove them, and tabs
/// too.
fn allowed(text: &str) -> String {
    let replace = |character: char| match character {
        '\n' => '\n',
        '\t' => ' ',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        control if control.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::case::Arm;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;

    fn rendered(run: &[TestRequest<'_>], per: JunitPer) -> String {
        let mut named = record();
        named.server.model_id = "<m>".into();
        let mut out = Vec::new();
        with_view(run, named, |view| write(&view, per, &mut out)).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn eventful() -> Vec<TestRequest<'static>> {
        let invalid = Verdict::Invalid {
            reason: Reason::ExtraText {
                byte: 2,
                kind: sobench_core::verdict::ExtraText::Unknown,
                valid_if_stripped: false,
            },
        };
        let refused = Outcome::Rejected {
            status: 400,
            body: "bad ]]> \u{0}".into(),
            advice: None,
        };
        vec![
            test_request(),
            TestRequest {
                verdict: invalid.clone(),
                text: "{}</failure>\u{1b}\nx",
                ..test_request()
            },
            TestRequest {
                outcome: refused,
                verdict: Verdict::NotScored {
                    why: NotScored::Refused,
                },
                ..test_request()
            },
            TestRequest {
                arm: Arm::Control,
                verdict: invalid,
                ..test_request()
            },
        ]
    }

    #[test]
    fn each_case_is_a_test() {
        let file = rendered(&eventful(), JunitPer::Case);
        let kept = file
            .lines()
            .filter(|line| !line.trim_start().starts_with("<property "))
            .collect::<Vec<_>>()
            .join("\n");
        insta::assert_snapshot!(kept);
    }

    #[test]
    fn every_metric_is_a_property() {
        let file = rendered(
            &sobench_results::metrics::registry::testing::eventful_run(),
            JunitPer::Case,
        );
        let (of_suite, of_tests) = file.split_once("<testcase").unwrap();
        let has = |text: &str, name: &str| text.contains(&format!("<property name=\"{name}\""));
        for metric in Metric::in_tables()
            .filter(|metric| !metric.name.ends_with("goodput"))
            // Those of the server's page are in the tests of all outputs.
            .filter(|metric| !metric.is_from_server())
        {
            let names = [
                metric.name.to_owned(),
                format!("{}_percent", metric.name),
                format!("mean_{}", metric.name),
            ];
            assert!(names.iter().any(|name| has(of_suite, name)), "{metric:?}");
            assert_eq!(
                has(of_tests, metric.name),
                metric.is_rate() || metric.is_distribution(),
                "{metric:?}"
            );
        }
    }

    #[test]
    fn a_dataset_may_be_one_test() {
        for (run, counts, found) in [
            (
                vec![test_request()],
                "tests=\"1\" skipped=\"0\" errors=\"0\" failures=\"0\"",
                "classname=\"sobench\" time=\"2.000000\"/>",
            ),
            (
                eventful(),
                "tests=\"1\" skipped=\"0\" errors=\"0\" failures=\"1\"",
                "extra_text: 1\nrejected: 1",
            ),
            (
                eventful()[2..].to_vec(),
                "tests=\"1\" skipped=\"0\" errors=\"1\" failures=\"0\"",
                "1 requests have no answer",
            ),
            (
                eventful()[3..].to_vec(),
                "tests=\"1\" skipped=\"1\" errors=\"0\" failures=\"0\"",
                "nothing was judged",
            ),
            (
                vec![],
                "tests=\"1\" skipped=\"1\" errors=\"0\" failures=\"0\"",
                "nothing was judged",
            ),
        ] {
            let file = rendered(&run, JunitPer::Dataset);
            assert!(file.contains(counts) && file.contains(found), "{file}");
            assert_eq!(file.matches("<testcase").count(), 1);
        }
    }

    #[test]
    fn cut_answers_are_marked() {
        let long = "x".repeat(5000);
        let run = [TestRequest {
            verdict: Verdict::Invalid {
                reason: Reason::Choice,
            },
            text: &long,
            ..test_request()
        }];
        let file = rendered(&run, JunitPer::Case);
        assert!(
            file.contains("xx… (5008 bytes)</failure>") && file.len() < 9500,
            "{file}"
        );
    }
}
