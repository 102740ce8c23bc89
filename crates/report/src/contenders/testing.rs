//! A comparison with every kind of row and notice, for tests of the output formats.

use super::capacity::{Capacity, CapacityRow, Sweep, SweepEnd, SweepStep};
use super::charts::{Curves, Distributions, InvalidReason, Quantiles};
use super::verdicts::Verdicts;
use super::{
    Causes, ColdFrom, Comparison, Control, Disagreement, FORMAT, FORMAT_VERSION, Figures,
    JudgedAnswer, KneeRow, Load, MatrixConditions, MatrixRun, Refusal, Row, RowResult, SchemaCell,
    SchemaRow,
};
use sobench_core::case::Arm;
use sobench_notices::notice::Notice;
use sobench_plan::metrics::Slo;
use sobench_results::metrics::constraint_overhead::Added;
use sobench_results::metrics::knee::knee;
use sobench_statistics::{Rate, Summary};

fn summary(n: usize, from_ms: f64) -> Summary {
    Summary::new(
        (0..n).map(|index| from_ms + index as f64 / 10.0).collect(),
        &[99.0],
    )
}

/// Half of the other answers are cut, the others are invalid.
fn causes(hits: usize) -> Causes {
    let share = |count: usize| Rate::new(count, 200).unwrap();
    let others = 200 - hits;
    Causes {
        invalid: share(others - others / 2),
        truncated: share(others / 2),
        refused: share(0),
        failed: share(0),
    }
}

/// Two constraints, one of which a contender refuses.
fn schemas() -> Vec<SchemaRow> {
    let cell = |contender: &str| SchemaCell {
        contender: contender.to_owned(),
        requests: 10,
        correct: 10,
        ttft_ms: Some(12.0),
        added_ttft_ms: Some(1.5),
        ..SchemaCell::default()
    };
    let refused = SchemaCell {
        correct: 0,
        refused: 10,
        refusal: Some(refusal()),
        ttft_ms: None,
        added_ttft_ms: None,
        ..cell("<b>|odd*")
    };
    let row = |name: &str, cells: Vec<SchemaCell>| SchemaRow {
        dataset: "json".to_owned(),
        name: name.to_owned(),
        tags: vec!["feature:number-bounds".to_owned()],
        cells,
    };
    vec![
        row("price|list", vec![cell("xgrammar"), refused]),
        row("contact", vec![cell("xgrammar"), cell("<b>|odd*")]),
    ]
}

/// The row of the refused constraint, as a row of its tag.
fn features() -> Vec<SchemaRow> {
    let refused = schemas().swap_remove(0);
    vec![SchemaRow {
        name: refused.tags[0].clone(),
        tags: Vec::new(),
        ..refused
    }]
}

fn refusal() -> Refusal {
    Refusal {
        requests: 10,
        keyword: Some("multipleOf".to_owned()),
        message: "HTTP 400: multipleOf <b> is not supported".to_owned(),
    }
}

fn disagreement() -> Disagreement {
    let answer = |contender: &str, finding: Option<&str>| JudgedAnswer {
        contender: contender.to_owned(),
        valid: finding.is_none(),
        finding: finding.map(str::to_owned),
        text: "{\"price\": \"<script>\"}".to_owned(),
    };
    Disagreement {
        dataset: "json".to_owned(),
        schema: "price|list".to_owned(),
        case_id: "custom-3".to_owned(),
        load: Load::RequestRate(4.0),
        repeat: 1,
        answers: vec![
            answer("xgrammar", None),
            answer("<b>|odd*", Some("not a multiple of 0.05")),
        ],
    }
}

fn figures(hits: usize) -> Figures {
    Figures {
        runs: 2,
        requests: 200,
        correct_rate: Rate::new(hits, 200),
        decoding: Some(16.0),
        causes: Some(causes(hits)),
        refusals: Vec::new(),
        only_refusal: None,
        reasons: vec![InvalidReason {
            name: "not_json",
            count: 200 - hits,
            example: None,
        }],
        distributions: Distributions {
            ttft_ms: Curves {
                constrained: Quantiles::new((0..200).map(|index| 12.0 + f64::from(index) / 10.0)),
                control: Quantiles::new((0..200).map(|index| 10.0 + f64::from(index) / 10.0)),
            },
            tpot_ms: Curves::default(),
        },
        compliance: Rate::new(hits, hits),
        coverage: Rate::new(200, 200),
        ttft_ms: summary(200, 12.0),
        tpot_ms: summary(700, 100.0),
        e2el_ms: summary(200, 2000.0),
        request_throughput: Some(4.0),
        output_throughput: Some(1234.5),
        valid_throughput: Some(3.96),
        valid_within_objectives: Rate::new(hits, 200),
        cold_ttft_ms: summary(2, 80.0),
        warm_ttft_ms: summary(198, 12.0),
        cold_from: Some(ColdFrom::Run),
        control: Some(Control {
            runs: 2,
            requests: 200,
            control_rate: Rate::new(3, 200),
            ttft_ms: summary(200, 10.0),
            tpot_ms: summary(200, 90.0),
            output_throughput: Some(1300.0),
            decoding: Some(15.5),
            ttft_added: Added::new(&[24.0, 25.0, 26.0], &[20.0; 3], 60, Some(0.0)),
            first_ttft_added: Added::new(&[80.0], &[10.0], 1, Some(0.0)),
            tpot_added: Added::new(&[11.0], &[10.0], 12, Some(0.0)),
            e2el_added: None,
        }),
        distrusted_runs: 0,
        server_version: Some("0.33.0".to_owned()),
        engine: None,
        metrics: sobench_results::metrics::registry::testing::values(),
    }
}

/// The capacity of one sweep, whose first run measures where to start.
fn capacity(sustained: f64, missed: f64, end: SweepEnd) -> Capacity {
    let step = |load: Load, good: usize| SweepStep {
        load,
        requests: 200,
        share: Rate::new(good, 200),
        is_sustained: good >= 198,
        is_undecided: false,
        backlog_growth_percent: Some(if good >= 198 { 0.0 } else { 40.0 }),
        is_behind: good < 198,
        achieved_rps: Some(sustained.min(load.size())),
        output_tokens_per_s: Some(100.0 * sustained.min(load.size())),
        ttft_ms: summary(200, 10.0 * load.size()),
        tpot_ms: summary(200, load.size()),
        cold_ttft_ms: summary(2, 80.0),
        warm_ttft_ms: summary(198, 9.0),
        is_distrusted: false,
    };
    let steps = vec![
        step(Load::MaxConcurrency(8), 200),
        step(Load::RequestRate(sustained), 199),
        step(Load::RequestRate(missed), 90),
    ];
    Capacity::new(vec![Sweep {
        repeat: 1,
        sustained_rps: Some(sustained),
        missed_rps: Some(missed),
        low_rps: Some(sustained),
        high_rps: Some(missed),
        end,
        steps,
    }])
}

/// Two contenders, one of which does not start, under two loads.
pub(super) fn eventful() -> Comparison {
    let loads = [Load::RequestRate(4.0), Load::RequestRate(f64::INFINITY)];
    let row = |contender: &str, load: Load, result: RowResult| Row {
        dataset: "json".to_owned(),
        contender: contender.to_owned(),
        load,
        result,
    };
    let rows = vec![
        row(
            "xgrammar",
            loads[0],
            RowResult::Measured(Box::new(figures(200))),
        ),
        row(
            "xgrammar",
            loads[1],
            RowResult::Measured(Box::new(Figures {
                control: None,
                cold_ttft_ms: summary(2, 80.0),
                warm_ttft_ms: summary(2, 9.0),
                cold_from: Some(ColdFrom::Alone),
                distrusted_runs: 1,
                ..figures(150)
            })),
        ),
        row(
            "<b>|odd*",
            loads[0],
            RowResult::DidNotRun {
                reason: "it said: <script> | \u{1b}[1m".to_owned(),
            },
        ),
        row(
            "<b>|odd*",
            loads[1],
            RowResult::DidNotRun {
                reason: "it said: <script> | \u{1b}[1m".to_owned(),
            },
        ),
    ];
    let run = |failure: Option<&str>| MatrixRun {
        contender: "xgrammar".to_owned(),
        dataset: "json".to_owned(),
        load: loads[1],
        arm: Arm::Control,
        repeat: 1,
        run_log: Some("a.jsonl".to_owned()),
        result: None,
        distrust: None,
        failure: failure.map(str::to_owned),
    };
    let share = |contender: &str, shares: &[(Load, Option<Rate>)]| KneeRow {
        dataset: "json".to_owned(),
        contender: contender.to_owned(),
        knee: knee(shares, 99.0),
    };
    Comparison {
        format: FORMAT,
        format_version: FORMAT_VERSION,
        record: MatrixConditions {
            date: Some("2026-01-02T03:04:05Z".to_owned()),
            sobench_version: "0.1.0".to_owned(),
            backend: "vllm".to_owned(),
            servers: "running servers".to_owned(),
            order: "one after the other".to_owned(),
            interleaved: false,
            num_prompts: 100,
            output_len: 128,
            seed: 0,
            load: "all at once".to_owned(),
            repeats: 2,
            control: true,
            goodput: Some(Slo {
                ttft_ms: Some(200.0),
                tpot_ms: Some(50.0),
                e2el_ms: None,
                valid: false,
            }),
            goodput_share_percent: 99.0,
            partial: true,
        },
        rows,
        knees: vec![
            share(
                "xgrammar",
                &[
                    (loads[0], Rate::new(200, 200)),
                    (loads[1], Rate::new(150, 200)),
                ],
            ),
            share(
                "guidance",
                &[(loads[0], Rate::new(9, 10)), (loads[1], Rate::new(10, 10))],
            ),
            share("outlines", &[(loads[0], Rate::new(9, 10))]),
            share("<b>|odd*", &[(loads[0], None)]),
        ],
        capacity: vec![CapacityRow::new(
            "json".to_owned(),
            "<b>|odd*".to_owned(),
            capacity(14.0, 16.0, SweepEnd::RunLimit),
            Some(capacity(20.0, 24.0, SweepEnd::Narrow)),
        )],
        verdicts: Verdicts::default(),
        schemas: schemas(),
        features: features(),
        disagreements: vec![disagreement()],
        runs: vec![
            MatrixRun {
                distrust: Some("late".to_owned()),
                ..run(None)
            },
            run(Some("gone")),
        ],
        notices: vec![Notice::Other("a note with <tags> and | bars".to_owned())],
    }
}
