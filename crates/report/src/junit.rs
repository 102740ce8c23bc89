//! A run as a suite of tests for CI: JUnit's XML, written by the crate `quick-junit`. The suite's
//! properties are the metrics of the run, those of a test the metrics of its request, as pytest
//! writes them.
//!
//! An answer that breaks its constraint is a failure, a request that was refused or failed is an
//! error, and what says nothing of the constraint (the control arm among it) is skipped.

use std::io::Write;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::csv::arm_name;
use super::view::{Standing, View};
use crate::format;
use sobench_core::dates::iso_8601;
use sobench_core::error::Result;
use sobench_core::printable::printable;
use sobench_results::metrics::excerpt::cut;
use sobench_results::metrics::registry::{Figure, Metric};
use sobench_results::metrics::{MetricsOptions, Sample};

/// What one test is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JunitPer {
    #[default]
    Case,
    Dataset,
}

/// The most characters of a message, which stands in an attribute.
const MESSAGE_MAX_CHARS: usize = 400;

/// The most bytes of an answer, or of a server's words, that a test shows.
const EXCERPT_MAX_BYTES: usize = 2000;

/// The date of a run that has none: the schema asks for one.
const NO_DATE: &str = "1970-01-01T00:00:00";

impl JunitPer {
    /// Every way, in the order in which they are listed to people.
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
/// An answer cannot be read, or what is written to gives out.
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

/// The suite without its tests. Its times are attributes of our own, since the crate writes
/// milliseconds and a zone.
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
    suite.add_properties(Figure::all_of(&view.report.metrics.values).into_iter().map(
        |(figure, value)| match figure.is_rate() {
            true => property(&format!("{figure}_percent"), &format!("{value:.4}")),
            false => property(&figure.to_string(), &value.to_string()),
        },
    ));
    suite.set_system_out("").set_system_err("");
    suite
}

fn property(name: &str, value: &str) -> Property {
    Property::new(name, attribute(value))
}

/// What a request is in each metric in which it counts.
fn metrics_of(sample: &Sample<'_>, options: &MetricsOptions) -> Vec<Property> {
    let value = |metric: &Metric| {
        let hit = metric.hit(sample).map(|hit| hit.to_string());
        hit.or_else(|| metric.value(sample, options).map(|value| value.to_string()))
    };
    Metric::ALL
        .iter()
        .filter_map(|metric| Some(property(metric.name, &value(metric)?)))
        .collect()
}

fn dataset(view: &View<'_>) -> &'static str {
    view.report.record.settings.dataset.name().name()
}

/// One request.
fn test(view: &View<'_>, place: usize, sample: &Sample<'_>) -> Result<TestCase> {
    let timing = sample.moments();
    let kind = sample
        .constraint()
        .map_or("none", |constraint| constraint.kind());
    let class = format!("{}.{kind}.{}", dataset(view), arm_name(sample.arm()));
    let taken_ns = timing
        .sent_ns
        .zip(timing.end_ns)
        .map_or(0, |(sent, end)| end.saturating_sub(sent));
    let status = match Standing::of(sample) {
        Standing::Passed => TestCaseStatus::success(),
        Standing::Skipped(why) => skipped(&why),
        Standing::Invalid(reason) => {
            let answer = format!("answer: {}", (view.answer)(place)?);
            unsuccessful(
                NonSuccessKind::Failure,
                reason.name(),
                &reason.to_string(),
                &answer,
            )
        }
        Standing::NoAnswer(words) => unsuccessful(
            NonSuccessKind::Error,
            sample.outcome().name(),
            &words,
            &words,
        ),
    };
    let mut test = test_case(&class, &sample.id(), taken_ns, status);
    test.add_properties(metrics_of(sample, &view.report.metrics.options));
    Ok(test)
}

/// The whole dataset as one test.
fn whole(view: &View<'_>) -> TestCase {
    let metrics = &view.report.metrics;
    let rate = metrics.quality.correct_rate.map_or_else(
        || "no correct rate".to_owned(),
        |rate| {
            format!(
                "correct rate {:.2} % ({:.2} to {:.2}), {} of {}",
                rate.percent, rate.low_percent, rate.high_percent, rate.hits, rate.of
            )
        },
    );
    let groups = metrics.quality.reasons.iter().chain(&metrics.failures);
    let lines: String = groups
        .map(|group| format!("{}: {}\n", group.name, group.count))
        .collect();
    let count = |counts: fn(&Standing<'_>) -> bool| {
        view.samples
            .iter()
            .filter(|sample| counts(&Standing::of(sample)))
            .count()
    };
    let invalid = count(|standing| matches!(standing, Standing::Invalid(_)));
    let unanswered = count(|standing| matches!(standing, Standing::NoAnswer(_)));
    let status = if invalid > 0 {
        let message = format!("{invalid} answers are not valid; {rate}");
        unsuccessful(NonSuccessKind::Failure, "invalid", &message, &lines)
    } else if unanswered > 0 {
        let message = format!("{unanswered} requests got no answer; {rate}");
        unsuccessful(NonSuccessKind::Error, "no_answer", &message, &lines)
    } else if count(|standing| *standing == Standing::Passed) == 0 {
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

/// Text of others in an attribute, which has one line.
fn attribute(text: &str) -> String {
    allowed(&printable(text, MESSAGE_MAX_CHARS))
}

/// Replaces what XML 1.0 forbids or discourages. The crate would remove it, and tabs with it.
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
    use sobench_results::metrics::testing::{Made, made};
    use sobench_results::record::testing::record;

    fn rendered(run: &[Made<'_>], per: JunitPer) -> String {
        let mut named = record();
        named.server.model_id = "<m>".into();
        let mut out = Vec::new();
        with_view(run, named, |view| write(&view, per, &mut out)).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn eventful() -> Vec<Made<'static>> {
        let invalid = Verdict::Invalid {
            reason: Reason::ExtraText { byte: 2 },
        };
        let refused = Outcome::Rejected {
            status: 400,
            body: "bad ]]> \u{0}".into(),
            advice: None,
        };
        vec![
            made(),
            Made {
                verdict: invalid.clone(),
                text: "{}</failure>\u{1b}\nx",
                ..made()
            },
            Made {
                outcome: refused,
                verdict: Verdict::NotScored {
                    why: NotScored::Refused,
                },
                ..made()
            },
            Made {
                arm: Arm::Control,
                verdict: invalid,
                ..made()
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
        for metric in Metric::ALL
            .iter()
            .filter(|metric| !metric.name.ends_with("goodput"))
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
                vec![made()],
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
                "1 requests got no answer",
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
    fn long_answers_are_cut_aloud() {
        let long = "x".repeat(5000);
        let run = [Made {
            verdict: Verdict::Invalid {
                reason: Reason::Choice,
            },
            text: &long,
            ..made()
        }];
        let file = rendered(&run, JunitPer::Case);
        assert!(
            file.contains("xx… (5008 bytes)</failure>") && file.len() < 9000,
            "{file}"
        );
    }
}
