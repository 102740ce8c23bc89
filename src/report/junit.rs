//! A run as a suite of tests, for CI: JUnit's XML, in the common part of the schemas of Apache Ant's task (Windy Road's `JUnit.xsd`) and of
//! Jenkins, and with properties of single tests as pytest writes them. The suite's properties are the metrics of the run, those of a test
//! the metrics of its request.
//!
//! An answer that breaks its constraint is a failure, a request that was refused or failed is an error, and what says nothing of the
//! constraint (the control arm among it) is skipped.

use std::io::Write;

use super::csv::arm_name;
use super::escape::escape;
use super::view::{Standing, View};
use crate::error::Result;
use crate::metrics::excerpt::cut;
use crate::metrics::registry::{Figure, Metric};
use crate::metrics::{MetricsOptions, Sample};
use crate::printable::printable;
use crate::report::format;

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

/// Tests by what became of them.
#[derive(Clone, Copy, Default)]
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Counts {
    fn of(samples: &[Sample<'_>]) -> Self {
        samples.iter().fold(Self::default(), |counts, sample| counts.with(&Standing::of(sample)))
    }

    fn with(mut self, standing: &Standing<'_>) -> Self {
        self.tests += 1;
        match standing {
            Standing::Passed => {}
            Standing::Invalid(_) => self.failures += 1,
            Standing::NoAnswer(_) => self.errors += 1,
            Standing::Skipped(_) => self.skipped += 1,
        }
        self
    }

    /// All of them as one test.
    fn as_one(self) -> Self {
        let failures = usize::from(self.failures > 0);
        let errors = usize::from(failures == 0 && self.errors > 0);
        let passed = self.tests - self.failures - self.errors - self.skipped;
        Self { tests: 1, failures, errors, skipped: usize::from(failures + errors == 0 && passed == 0) }
    }
}

/// Writes the suite.
///
/// # Errors
/// An answer cannot be read, or what is written to gives out.
pub fn write(view: &View<'_>, per: JunitPer, out: &mut dyn Write) -> Result<()> {
    let counts = Counts::of(view.samples);
    let mut put = |text: &str| format::put(out, text);
    put(&head(view, if per == JunitPer::Dataset { counts.as_one() } else { counts }))?;
    match per {
        JunitPer::Dataset => put(&whole(view, counts))?,
        JunitPer::Case => {
            for (place, sample) in view.samples.iter().enumerate() {
                put(&test(view, place, sample)?)?;
            }
        }
    }
    put("<system-out/>\n<system-err/>\n</testsuite>\n</testsuites>\n")
}

fn head(view: &View<'_>, counts: Counts) -> String {
    let record = &view.report.record;
    let seconds = view.report.metrics.duration_ns as f64 / 1e9;
    let date = iso(&record.date()).unwrap_or_else(|| NO_DATE.to_owned());
    let Counts { tests, failures, errors, skipped } = counts;
    let mut head = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite id=\"0\" package=\"sobench\" name=\"{}\" hostname=\"localhost\" \
         timestamp=\"{date}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{seconds:.6}\">\n",
        attribute(&suite(view))
    );
    let of_run = [
        ("sobench_version", Some(record.sobench_version.clone())),
        ("backend", Some(record.settings.backend.to_string())),
        ("base_url", Some(record.server.base_url.clone())),
        ("model", Some(record.server.model_id.clone())),
        ("dataset_sha256", Some(record.dataset.sha256.clone())),
        ("seed", Some(record.settings.dataset.seed.to_string())),
        ("partial", Some(view.report.partial.to_string())),
    ];
    let of_run = of_run.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let of_metrics = Figure::all_of(&view.report.metrics.values).into_iter().map(|(figure, value)| match figure.is_rate() {
        true => (format!("{figure}_percent"), format!("{value:.4}")),
        false => (figure.to_string(), value.to_string()),
    });
    head.push_str(&properties(of_run.chain(of_metrics)));
    head
}

fn properties(named: impl Iterator<Item = (String, String)>) -> String {
    let line = |(name, value): (String, String)| format!("<property name=\"{name}\" value=\"{}\"/>\n", attribute(&value));
    format!("<properties>\n{}</properties>\n", named.map(line).collect::<String>())
}

/// What a request is in each metric in which it counts.
fn metrics_of(sample: &Sample<'_>, options: &MetricsOptions) -> String {
    let value = |metric: &Metric| {
        let hit = metric.hit(sample).map(|hit| hit.to_string());
        hit.or_else(|| metric.value(sample, options).map(|value| value.to_string()))
    };
    properties(Metric::ALL.iter().filter_map(|metric| Some((metric.name.to_owned(), value(metric)?))))
}

fn suite(view: &View<'_>) -> String {
    format!("{} on {}", view.report.record.server.model_id, dataset(view))
}

fn dataset(view: &View<'_>) -> &'static str {
    view.report.record.settings.dataset.name.name()
}

/// One request.
fn test(view: &View<'_>, place: usize, sample: &Sample<'_>) -> Result<String> {
    let timing = sample.moments();
    let kind = sample.constraint().map_or("none", |it| it.kind());
    let class = format!("{}.{kind}.{}", dataset(view), arm_name(sample.arm()));
    let taken_ns = timing.sent_ns.zip(timing.end_ns).map_or(0, |(sent, end)| end.saturating_sub(sent));
    let standing = Standing::of(sample);
    let (class, name, seconds) = (attribute(&class), attribute(&sample.id()), taken_ns as f64 / 1e9);
    let begin = format!("<testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.6}\"");
    let found = match &standing {
        Standing::Passed => String::new(),
        Standing::Skipped(why) => format!("<skipped message=\"{}\"/>", attribute(why)),
        Standing::Invalid(reason) => {
            element("failure", reason.name(), &reason.to_string(), &format!("answer: {}", (view.answer)(place)?))
        }
        Standing::NoAnswer(words) => element("error", sample.outcome().name(), words, words),
    };
    let metrics = metrics_of(sample, &view.report.metrics.options);
    Ok(format!("{begin}>\n{metrics}{found}</testcase>\n"))
}

/// The whole dataset as one test.
fn whole(view: &View<'_>, counts: Counts) -> String {
    let quality = &view.report.metrics.quality;
    let name = attribute(dataset(view));
    let seconds = view.report.metrics.duration_ns as f64 / 1e9;
    let begin = format!("<testcase classname=\"sobench\" name=\"{name}\" time=\"{seconds:.6}\"");
    let rate = quality.correct_rate.map_or_else(
        || "no correct rate".to_owned(),
        |it| {
            format!(
                "correct rate {:.2} % ({:.2} to {:.2}), {} of {}",
                it.percent, it.low_percent, it.high_percent, it.hits, it.of
            )
        },
    );
    let groups = quality.reasons.iter().chain(&view.report.metrics.failures);
    let lines: String = groups.map(|it| format!("{}: {}\n", it.name, it.count)).collect();
    let one = counts.as_one();
    let found = if one.failures > 0 {
        element("failure", "invalid", &format!("{} answers are not valid; {rate}", counts.failures), &lines)
    } else if one.errors > 0 {
        element("error", "no_answer", &format!("{} requests got no answer; {rate}", counts.errors), &lines)
    } else if one.skipped > 0 {
        "<skipped message=\"nothing was judged\"/>".to_owned()
    } else {
        return format!("{begin}/>\n");
    };
    format!("{begin}>{found}</testcase>\n")
}

fn element(tag: &str, kind: &str, message: &str, text: &str) -> String {
    let short = cut(text, EXCERPT_MAX_BYTES);
    let more = if short.len() < text.len() { format!("… ({} bytes)", text.len()) } else { String::new() };
    format!("<{tag} type=\"{kind}\" message=\"{}\">{}{more}</{tag}>", attribute(message), escape(short))
}

/// A stranger's words in an attribute, which has one line.
fn attribute(text: &str) -> String {
    escape(&printable(text, MESSAGE_MAX_CHARS))
}

/// vLLM's spelling of a date in ISO 8601, without a zone as the schema wants it.
fn iso(date: &str) -> Option<String> {
    let (day, time) = date.split_once('-')?;
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|it| it.is_ascii_digit());
    (digits(day, 8) && digits(time, 6))
        .then(|| format!("{}-{}-{}T{}:{}:{}", &day[..4], &day[4..6], &day[6..], &time[..2], &time[2..4], &time[4..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Arm;
    use crate::metrics::testing::{Made, made};
    use crate::observation::Outcome;
    use crate::record::testing::record;
    use crate::report::view::testing::with_view;
    use crate::verdict::{NotScored, Reason, Verdict};

    fn rendered(run: &[Made<'_>], per: JunitPer) -> String {
        let mut named = record();
        named.server.model_id = "<m>".into();
        let mut out = Vec::new();
        with_view(run, named, |view| write(&view, per, &mut out)).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn eventful() -> Vec<Made<'static>> {
        let invalid = Verdict::Invalid { reason: Reason::ExtraText { byte: 2 } };
        let refused = Outcome::Rejected { status: 400, body: "bad ]]> \u{0}".into(), advice: None };
        vec![
            made(),
            Made { verdict: invalid.clone(), text: "{}</failure>\u{1b}\nx", ..made() },
            Made { outcome: refused, verdict: Verdict::NotScored { why: NotScored::Refused }, ..made() },
            Made { arm: Arm::Control, verdict: invalid, ..made() },
        ]
    }

    #[test]
    fn each_case_is_a_test() {
        let file = rendered(&eventful(), JunitPer::Case);
        let kept = file.lines().filter(|line| !line.starts_with("<property ")).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(kept);
    }

    #[test]
    fn every_metric_is_a_property() {
        let file = rendered(&crate::metrics::registry::testing::eventful_run(), JunitPer::Case);
        let (of_suite, of_tests) = file.split_once("<testcase").unwrap();
        let has = |text: &str, name: &str| text.contains(&format!("<property name=\"{name}\""));
        for metric in Metric::ALL.iter().filter(|metric| !metric.name.ends_with("goodput")) {
            let names = [metric.name.to_owned(), format!("{}_percent", metric.name), format!("mean_{}", metric.name)];
            assert!(names.iter().any(|name| has(of_suite, name)), "{metric:?}");
            assert_eq!(has(of_tests, metric.name), metric.is_rate() || metric.is_distribution(), "{metric:?}");
        }
    }

    #[test]
    fn a_dataset_may_be_one_test() {
        for (run, counts, found) in [
            (vec![made()], "tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"0\"", "name=\"json\" time=\"2.000000\"/>"),
            (eventful(), "tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\"", "extra_text: 1\nrejected: 1"),
            (eventful()[2..].to_vec(), "tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\"", "1 requests got no answer"),
            (eventful()[3..].to_vec(), "tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\"", "nothing was judged"),
            (vec![], "tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\"", "nothing was judged"),
        ] {
            let file = rendered(&run, JunitPer::Dataset);
            assert!(file.contains(counts) && file.contains(found), "{file}");
            assert_eq!(file.matches("<testcase").count(), 1);
        }
    }

    #[test]
    fn dates_are_respelt_or_left_out() {
        assert_eq!(iso("20260102-030405").as_deref(), Some("2026-01-02T03:04:05"));
        for odd in ["", "-", "2026é02-030405", "20260102-03040é"] {
            assert_eq!(iso(odd), None, "{odd}");
        }
    }

    #[test]
    fn long_answers_are_cut_aloud() {
        let long = "x".repeat(5000);
        let run = [Made { verdict: Verdict::Invalid { reason: Reason::Choice }, text: &long, ..made() }];
        let file = rendered(&run, JunitPer::Case);
        assert!(file.contains("xx… (5008 bytes)</failure>") && file.len() < 9000, "{file}");
    }
}
