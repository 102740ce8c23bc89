//! The full text report: vLLM's block, every table, the conditions and the notices.
//!
//! The block has the width, the rows and the number formats of `vllm bench serve`, so that scripts
//! can parse it. An unknown value is `n/a`, never 0.

use std::fmt::Write as _;

use super::view::View;
use super::{Report, conditions, count_marks, tables, verdict};
use sobench_core::printable::printable;
use sobench_plan::metrics::Answers;
use sobench_render::{self as render, Block, Document, Text};
use sobench_results::metrics::registry::{Metric, totals};
use sobench_statistics::Summary;

/// The width of vLLM's block, and of every heading.
const BLOCK_WIDTH: usize = 50;

/// How much of a report the text shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// One screen ([`super::summary`]).
    #[default]
    Summary,
    /// Every table.
    Full,
}

impl Detail {
    /// Every value, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::Summary, Self::Full];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Full => "full",
        }
    }
}

/// The full report, with a final line feed.
pub fn render(view: &View<'_>) -> String {
    render::text::render(&document(view))
}

fn document(view: &View<'_>) -> Document {
    let report = view.report;
    let mut page = Document::default();
    page.push(verdict::block(report));
    page.gap();
    if let Some(stamp) = conditions::warning(report) {
        page.alarm(stamp);
        page.gap();
    }
    page.push(Block::Preformatted(vllm_block(report)));
    page.paragraphs(count_marks::footnotes(report));
    tables::add_all(&mut page, view);
    page.gap();
    page.facts(conditions::lines(report));
    page.gap();
    page.notes(
        conditions::notices(report)
            .iter()
            .map(conditions::notice_text)
            .collect(),
    );
    page
}

/// A figure with two decimals, or `n/a`.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}"))
}

/// The block that `vllm bench serve` prints, line for line.
pub(crate) fn vllm_block(report: &Report) -> String {
    let mut block = String::new();
    let page = &mut block;
    let (metrics, record) = (&report.metrics, &report.record);
    let values = &metrics.values;
    let counted = |metric: &Metric| values.count(metric);
    let tokens = |metric: &Metric| count(values.known_count(metric));
    let known = |metric: &Metric| figure(values.number(metric));
    let marked = |text: String, metric| count_marks::marked(text, metrics, metric);
    heading(page, " Serving Benchmark Result ", '=');
    row(
        page,
        "Successful requests:",
        &counted(&totals::COMPLETED).to_string(),
    );
    row(
        page,
        "Failed requests:",
        &counted(&totals::FAILED).to_string(),
    );
    if counted(&totals::CANCELLED) > 0 {
        row(
            page,
            "Cancelled requests:",
            &counted(&totals::CANCELLED).to_string(),
        );
    }
    if counted(&totals::ABANDONED) > 0 {
        row(
            page,
            "Abandoned requests:",
            &counted(&totals::ABANDONED).to_string(),
        );
    }
    if let Some(cap) = record.own_cap() {
        row(page, "Maximum request concurrency:", &cap.to_string());
    }
    if let Some(rate) = Some(record.own_request_rate()).filter(|rate| rate.is_finite()) {
        row(page, "Request rate configured (RPS):", &figure(Some(rate)));
    }
    row(
        page,
        "Benchmark duration (s):",
        &figure(Some(metrics.duration_ns as f64 / 1e9)),
    );
    row(
        page,
        "Total input tokens:",
        &marked(tokens(&totals::INPUT_TOKENS), &totals::INPUT_TOKENS),
    );
    let generated = metrics.options.answers == Answers::Generated;
    if generated {
        row(
            page,
            "Total generated tokens:",
            &marked(tokens(&totals::OUTPUT_TOKENS), &totals::OUTPUT_TOKENS),
        );
    }
    row(
        page,
        "Request throughput (req/s):",
        &known(&totals::REQUEST_THROUGHPUT),
    );
    if metrics.options.goodput.is_some() {
        row(
            page,
            "Request goodput (req/s):",
            &marked(known(&totals::REQUEST_GOODPUT), &totals::REQUEST_GOODPUT),
        );
        // Without verdicts the number of valid requests is unknown.
        let is_known = |metric| values.number(metric).is_some();
        if is_known(&totals::VALID_GOODPUT) || !is_known(&totals::REQUEST_GOODPUT) {
            row(
                page,
                "Valid request goodput (req/s):",
                &marked(known(&totals::VALID_GOODPUT), &totals::VALID_GOODPUT),
            );
        }
    }
    if generated {
        row(
            page,
            "Output token throughput (tok/s):",
            &marked(
                known(&totals::OUTPUT_THROUGHPUT),
                &totals::OUTPUT_THROUGHPUT,
            ),
        );
        row(
            page,
            "Peak output token throughput (tok/s):",
            &marked(
                known(&totals::MAX_OUTPUT_TOKENS),
                &totals::MAX_OUTPUT_TOKENS,
            ),
        );
    }
    row(
        page,
        "Peak concurrent requests:",
        &known(&totals::MAX_CONCURRENT_REQUESTS),
    );
    row(
        page,
        "Total token throughput (tok/s):",
        &marked(
            known(&totals::TOTAL_TOKEN_THROUGHPUT),
            &totals::TOTAL_TOKEN_THROUGHPUT,
        ),
    );
    if let Some(spec_decode) = &report.spec_decode {
        row(
            page,
            "Acceptance rate (%):",
            &figure(Some(spec_decode.acceptance_rate)),
        );
        row(
            page,
            "Acceptance length:",
            &figure(Some(spec_decode.acceptance_length)),
        );
        row(page, "Drafts:", &spec_decode.num_drafts.to_string());
        row(page, "Draft tokens:", &spec_decode.draft_tokens.to_string());
        row(
            page,
            "Accepted tokens:",
            &spec_decode.accepted_tokens.to_string(),
        );
    }
    if let Some(probed) = &report.probe {
        row(
            page,
            "Probe requests completed:",
            &probed.completed.to_string(),
        );
        row(page, "Probe requests failed:", &probed.failed.to_string());
        row(
            page,
            "Median probe E2EL (ms):",
            &figure(probed.median_e2el_ms),
        );
        row(page, "P99 probe E2EL (ms):", &figure(probed.p99_e2el_ms));
        row(page, "Max probe E2EL (ms):", &figure(probed.max_e2el_ms));
    }
    for (metric, names) in report.printed() {
        let mark = match names.queued {
            true => String::new(),
            false => marked(String::new(), metric),
        };
        add_latency(
            page,
            (names.row, names.title),
            values.summary(metric),
            &mark,
        );
    }
    let _ = writeln!(page, "{}", "=".repeat(BLOCK_WIDTH));
    block
}

/// Adds a latency. `mark` follows each of its values.
fn add_latency(page: &mut String, (name, title): (&str, &str), summary: &Summary, mark: &str) {
    let marked = |value: Option<f64>| match value {
        Some(_) => figure(value) + mark,
        None => figure(value),
    };
    heading(page, title, '-');
    row(page, &format!("Mean {name} (ms):"), &marked(summary.mean));
    row(
        page,
        &format!("Median {name} (ms):"),
        &marked(summary.median),
    );
    for percentile in &summary.percentiles {
        let mut value = marked(percentile.value);
        if !percentile.enough && percentile.value.is_some() {
            let (n, needs) = (summary.n, percentile.needs);
            value.push_str(&format!(" (n={n} is too small, needs {needs})"));
        }
        row(
            page,
            &format!("P{} {name} (ms):", percentile.label()),
            &value,
        );
    }
}

/// Python's `{s:{c}^{n}}`: of an odd rest, the larger half is on the right. Rust's `^` does the
/// same, but takes no fill from a variable.
fn heading(page: &mut String, title: &str, fill: char) {
    let rest = BLOCK_WIDTH.saturating_sub(title.chars().count());
    let side = |width: usize| fill.to_string().repeat(width);
    let _ = writeln!(page, "{}{title}{}", side(rest / 2), side(rest - rest / 2));
}

/// Python's `{:<40} {:<10}`.
fn row(page: &mut String, name: &str, value: &str) {
    let _ = writeln!(page, "{name:<40} {value:<10}");
}

/// A count, or `n/a`.
pub(crate) fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |value| value.to_string())
}

/// A sentence as the first lines of an item of `width` characters, with its example below.
pub(crate) fn item(sentence: &str, width: usize, example: Vec<Text>) -> (Text, Vec<Text>) {
    let mut lines = wrapped(sentence, width).into_iter();
    let first = lines.next().unwrap_or_default();
    (first, lines.chain(example).collect())
}

/// An untrusted text in lines of at most `width` characters.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<Text> {
    let wrapped = render::text::wrap(&printable(text, usize::MAX), width, "");
    wrapped.lines().map(Text::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::case::Arm;
    use sobench_core::observation::{Outcome, Usage};
    use sobench_core::schedule::{Pace, Rate};
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_facts::{Sample, TokenSource};
    use sobench_notices::notice::Notice;
    use sobench_plan::metrics::{MetricsSettings, Slo};
    use sobench_plan::record::testing::record;
    use sobench_plan::record::{Engine, EngineChoice, RunRecord};
    use sobench_results::metrics::summarise;

    fn shown(run: &[TestRequest<'_>], record: RunRecord, options: &MetricsSettings) -> String {
        with_samples(run, |samples| {
            let report = Report::new(record, summarise(samples, 2_000_000_000, options));
            render(&view(&report, samples))
        })
    }

    fn view<'a>(report: &'a Report, samples: &'a [Sample<'a>]) -> View<'a> {
        View {
            report,
            samples,
            answer: &|_| Ok(sobench_core::answer::Answer::default()),
            resend: None,
            run_log: None,
            requirements: None,
        }
    }

    /// A record in which every condition is set.
    fn full_record() -> RunRecord {
        let mut record = record();
        record.sobench_version = "0.0.0".into();
        record.server.version = Some("0.33.0".into());
        record.server.model_id = "org/model".into();
        record.server.engine_choice = EngineChoice::Declared("xgrammar".into());
        record.dataset.sha256 = "0123456789abcdef0123".into();
        record.settings.dataset.constrained_ratio = 0.5;
        record.settings.load.pace = Pace::Steady(Rate::PerSecond(4.0));
        record.settings.load.max_concurrency = Some(8);
        (record.trial_requests, record.warmup_requests) = (1, 2);
        record.notices = vec![Notice::Other(
            "the model is synthetic: these figures are not a GPU server's".into(),
        )];
        record
    }

    /// A run with one request of each outcome.
    fn eventful_run() -> Vec<TestRequest<'static>> {
        let schema = Reason::Schema {
            keyword: "required".into(),
            instance_path: String::new(),
            schema_path: "/required".into(),
            message: "\"email\" is a required property".into(),
        };
        let invalid = |reason| Verdict::Invalid { reason };
        let truncated = TestRequest {
            outcome: Outcome::Truncated,
            finish_reason: Some("length"),
            ..test_request()
        };
        vec![
            test_request(),
            TestRequest {
                verdict: invalid(Reason::Choice),
                text: "Posi\u{1b}[31mtive\n",
                chunks: vec![10],
                ..test_request()
            },
            TestRequest {
                verdict: invalid(schema.clone()),
                text: r#"{"name": "Ada"}"#,
                chunks: vec![12, 40],
                output: Some(9),
                ..test_request()
            },
            TestRequest {
                verdict: invalid(Reason::Truncated),
                vllm_correct: Some(false),
                ..truncated
            },
            TestRequest {
                outcome: Outcome::Rejected {
                    status: 400,
                    body: r#"{"error":"no such grammar"}"#.into(),
                    advice: None,
                },
                verdict: Verdict::NotScored {
                    why: NotScored::Refused,
                },
                chunks: vec![],
                text: "",
                finish_reason: None,
                vllm_correct: Some(false),
                ..test_request()
            },
            TestRequest {
                verdict: Verdict::NotScored {
                    why: NotScored::Limit {
                        what: "nesting over 128".into(),
                    },
                },
                ..test_request()
            },
            TestRequest {
                arm: Arm::Control,
                verdict: invalid(schema),
                text: "{}",
                due: 5,
                sent: Some(9),
                ..test_request()
            },
        ]
    }

    #[test]
    fn a_page_shows_everything_with_unit_and_count() {
        let options = MetricsSettings {
            goodput: Some(Slo {
                ttft_ms: Some(10.0),
                ..Slo::default()
            }),
            ..MetricsSettings::default()
        };
        insta::assert_snapshot!(shown(&eventful_run(), full_record(), &options));
    }

    #[test]
    fn a_page_of_no_requests_has_no_zeros_for_unknowns() {
        insta::assert_snapshot!(shown(&[], record(), &MetricsSettings::default()));
    }

    #[test]
    fn figures_by_tag_need_two_tags() {
        let tagged = |tags: &'static [&'static str]| TestRequest {
            tags,
            ..test_request()
        };
        let options = MetricsSettings::default();
        let run = [tagged(&["tools-3"]), tagged(&["tools-24", "hard"])];
        let page = shown(&run, record(), &options);
        for text in ["By tag", "tools-3", "tools-24", "hard"] {
            assert!(page.contains(text), "{page}");
        }
        let page = shown(&[tagged(&["tools-3"])], record(), &options);
        assert!(!page.contains("By tag"), "{page}");
    }

    /// Ten chunks 10 ms apart, with these counts.
    fn counted(usage: Option<Usage>, source: TokenSource, output: u64) -> TestRequest<'static> {
        TestRequest {
            chunks: (1..=10).map(|chunk| 10 * chunk).collect(),
            output: Some(output),
            usage,
            source,
            ..test_request()
        }
    }

    #[test]
    fn figures_of_doubtful_token_counts_are_marked_in_their_row() {
        let usage = |prompt_tokens, completion_tokens, reasoning_tokens| {
            Some(Usage {
                prompt_tokens: Some(prompt_tokens),
                completion_tokens: Some(completion_tokens),
                reasoning_tokens,
                cached_tokens: None,
                unreadable: false,
            })
        };
        use TokenSource::{OtherTokenizer, Server, Tokenizer};
        let (out, both) = (&["[out]"][..], &["[in]", "[out]"][..]);
        for (request, marks, why) in [
            (counted(usage(7, 10, None), Server, 10), &[][..], ""),
            (
                counted(None, OtherTokenizer, 16),
                both,
                "[in] [out] token counts of 1 answers: 1 by cl100k_base (embedded), a tokenizer of another model, not by the server",
            ),
            (
                counted(None, Tokenizer, 10),
                both,
                "[in] [out] token counts of 1 answers: 1 by cl100k_base (embedded) (--tokenizer), not by the server",
            ),
            (
                counted(usage(7, 5, None), Server, 5),
                out,
                "[out] token counts of 1 answers: 1 with fewer tokens than chunks by the server",
            ),
            (
                counted(usage(7, 10, Some(11)), Server, 10),
                out,
                "1 with more tokens of reasoning than of all by the server",
            ),
            (
                counted(usage(0, 10, None), Server, 10),
                &["[in]"],
                "[in] token counts of 1 answers: 1 where the server counts 0 tokens of a prompt",
            ),
        ] {
            let page = shown(&[request], record(), &MetricsSettings::default());
            let row = |name: &str| {
                let line = page.lines().find(|line| line.starts_with(name)).unwrap();
                line[name.len()..]
                    .split_whitespace()
                    .skip(1)
                    .collect::<Vec<_>>()
            };
            let of = |mark: &str| Vec::from_iter(marks.iter().copied().filter(|own| *own == mark));
            assert_eq!(row("Total input tokens:"), of("[in]"), "{page}");
            for name in [
                "Total generated tokens:",
                "Output token throughput (tok/s):",
                "Mean TPOT (ms):",
                "Median TPOT (ms):",
            ] {
                assert_eq!(row(name), of("[out]"), "{page}");
            }
            assert_eq!(row("Total token throughput (tok/s):"), marks, "{page}");
            assert_eq!(row("Mean TTFT (ms):"), [""; 0], "{page}");
            let unwrapped = page.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(unwrapped.contains(why), "{why}\n{page}");
            // Directly below the block.
            let below = page
                .split(&format!("\n{}\n", "=".repeat(50)))
                .nth(1)
                .unwrap();
            assert_eq!(below.starts_with('['), !marks.is_empty(), "{page}");
        }
    }

    #[test]
    fn unexpected_chunks_and_streams_have_a_notice() {
        let (several, whole) = (
            "note: answers with several tokens in a single chunk",
            "note: answers that were not streamed although",
        );
        let one_chunk = |tokens| TestRequest {
            chunks: vec![10],
            output: Some(tokens),
            ..test_request()
        };
        let unstreamed = TestRequest {
            streamed: false,
            ..one_chunk(9)
        };
        for (made, asked, notes) in [
            (one_chunk(2), true, [false, false]),
            (one_chunk(3), true, [true, false]),
            (unstreamed.clone(), true, [false, true]),
            (unstreamed.clone(), false, [false, false]),
        ] {
            let options = MetricsSettings {
                streamed: asked,
                ..MetricsSettings::default()
            };
            let page = shown(&[made], record(), &options);
            assert_eq!(
                [page.contains(several), page.contains(whole)],
                notes,
                "{page}"
            );
            assert_eq!(
                page.contains("note: answers were not streamed:"),
                !asked,
                "{page}"
            );
        }
        let page = shown(
            &[test_request(), unstreamed.clone(), unstreamed],
            record(),
            &MetricsSettings::default(),
        );
        let (_, notes) = page.split_once("note: ").unwrap();
        assert_eq!(
            notes,
            "answers that were not streamed although a stream was requested, which have no TTFT, TPOT or\n  ITL: 2\n"
        );
    }

    /// The lines of vLLM's block.
    fn vllm_lines(page: &str) -> impl Iterator<Item = &str> {
        let lines = page.lines().skip_while(|line| !line.starts_with("==="));
        lines.take_while(|line| !line.is_empty())
    }

    #[test]
    fn the_block_has_the_layout_of_vllm_bench_serve() {
        let page = shown(&[test_request()], record(), &MetricsSettings::default());
        let block: Vec<&str> = vllm_lines(&page).collect();
        assert_eq!(
            block[0],
            "============ Serving Benchmark Result ============"
        );
        assert_eq!(
            block[1],
            "Successful requests:                     1         "
        );
        assert!(block.contains(&"---------------Time to First Token----------------"));
        assert!(block.contains(&"-----Time per Output Token (excl. 1st token)------"));
        assert!(block.contains(&"---------------Inter-token Latency----------------"));
        assert_eq!(*block.last().unwrap(), "=".repeat(50));
        for absent in [
            "Maximum request concurrency:",
            "Request rate configured (RPS):",
            "goodput",
            "E2EL",
        ] {
            assert!(!block.iter().any(|line| line.contains(absent)), "{absent}");
        }
    }

    #[test]
    fn requested_latencies_are_in_the_order_of_vllm() {
        let mut asked = record();
        asked.settings.report.percentile_metrics = ["e2el", "ttft"].map(str::to_owned).into();
        let report = with_samples(&[test_request()], |samples| {
            Report::new(asked, summarise(samples, 1, &MetricsSettings::default()))
        });
        let page = render(&view(&report, &[]));
        let titles: Vec<&str> = page
            .lines()
            .filter(|line| line.len() == 50 && line.starts_with("---"))
            .collect();
        assert_eq!(
            titles,
            [
                "---------------Time to First Token----------------",
                "----------------End-to-end Latency----------------"
            ]
        );
        assert!(page.contains(
            "P99 E2EL (ms):                           30.00 (n=1 is too small, needs 662)"
        ));
    }

    #[test]
    fn foreign_text_is_escaped() {
        let bad = "\u{1b}[2J\u{202e}".to_owned();
        let mut loud = full_record();
        loud.server.model_id.clone_from(&bad);
        loud.server.version = Some(bad.clone());
        let settings = vec![(bad.clone(), bad.clone())];
        loud.server.engine = Some(Engine {
            name: bad.clone(),
            version: Some(bad.clone()),
            settings,
            work: None,
        });
        loud.settings.report.label = Some(bad.clone());
        loud.dataset.constraint_kinds = vec![bad.clone()];
        loud.notices = vec![Notice::Other(bad.clone())];
        let run = [TestRequest {
            text: &bad,
            finish_reason: Some(&bad),
            verdict: Verdict::Invalid {
                reason: Reason::Empty,
            },
            ..test_request()
        }];
        let page = shown(&run, loud, &MetricsSettings::default());
        assert!(
            !page
                .chars()
                .any(|character| character.is_control() && character != '\n'),
            "{page:?}"
        );
        assert!(!page.contains('\u{202e}'));
        assert!(page.contains("\\u{1b}[2J"));
    }

    #[test]
    fn lines_are_at_most_120_columns() {
        let long = "x".repeat(3000);
        let run = [
            TestRequest {
                text: &long,
                verdict: Verdict::Invalid {
                    reason: Reason::Choice,
                },
                ..test_request()
            },
            eventful_run().remove(6),
        ];
        let page = shown(
            &run,
            RunRecord {
                notices: vec![Notice::Other(long.clone())],
                ..full_record()
            },
            &MetricsSettings::default(),
        );
        for line in page.lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
    }
}
