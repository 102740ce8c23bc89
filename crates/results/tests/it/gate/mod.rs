//! Tests the default gate on simulated runs: at most one gate in a hundred fails on equal sides,
//! and planted regressions are found. Create the whole table with `cargo run --release -p
//! sobench-results --example gate_power`; these tests check some of its pairs.

pub(crate) mod simulation;

use std::fs;

use sobench_testkit::repository_path;

use self::simulation::{PLANTED, Planted, SIZES, Setting, broken};

/// A line of `fixtures/baselines/gate-power.csv`; `called` counts failed gates.
struct Line {
    planted: Planted,
    requests: usize,
    runs: usize,
    all_valid: bool,
    pairs: u64,
    called: u64,
}

impl Line {
    fn size(&self) -> (usize, usize, bool) {
        (self.requests, self.runs, self.all_valid)
    }
}

fn table() -> Vec<Line> {
    let text = fs::read_to_string(repository_path("fixtures/baselines/gate-power.csv")).unwrap();
    let line = |line: &str| {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let [
            validity_pp,
            latency_percent,
            requests,
            runs,
            all_valid,
            pairs,
            called,
        ] = cells[..]
        else {
            panic!("{line}")
        };
        let planted = Planted {
            validity_pp,
            latency_percent,
        };
        Line {
            planted,
            requests: requests as usize,
            runs: runs as usize,
            all_valid: all_valid == 1.0,
            pairs: pairs as u64,
            called: called as u64,
        }
    };
    text.lines().skip(1).map(line).collect()
}

fn share(line: &Line) -> f64 {
    line.called as f64 / line.pairs as f64
}

/// Number of failed gates among the first pairs of a line, with 200 requests a run.
fn called(planted: Planted, runs: usize, pairs: u64) -> u64 {
    (0..pairs)
        .map(|pair| {
            u64::from(
                !broken(
                    Setting {
                        planted,
                        requests: 200,
                        runs,
                        all_valid: false,
                    },
                    pair,
                )
                .is_empty(),
            )
        })
        .sum()
}

#[test]
fn table_has_few_false_alarms_and_enough_power() {
    let table = table();
    let nothing: Vec<&Line> = table
        .iter()
        .filter(|line| line.planted == PLANTED[0])
        .collect();
    assert!(
        nothing.iter().filter(|line| line.pairs >= 1000).count() >= SIZES.len(),
        "a thousand pairs of equal sides, at every size"
    );
    for line in nothing {
        assert!(
            share(line) <= 0.01,
            "{} of {} equal sides at n = {}",
            line.called,
            line.pairs,
            line.requests
        );
    }
    let power = |validity_pp: f64, latency_percent: f64, size: (usize, usize, bool)| {
        let planted = Planted {
            validity_pp,
            latency_percent,
        };
        table
            .iter()
            .find(|line| line.planted == planted && line.size() == size)
            .map(share)
            .unwrap()
    };
    // Guards against regressions of the gate's power.
    assert!(
        power(5.0, 0.0, (1000, 1, false)) >= 0.95
            && power(0.0, 20.0, (200, 3, false)) >= 0.95
            && power(0.0, 20.0, (200, 5, false)) >= 0.95
    );
    assert!(
        power(5.0, 0.0, (200, 1, true)) > power(5.0, 0.0, (200, 1, false)) + 0.2,
        "a baseline without errors shows a loss sooner"
    );
    for planted in &PLANTED[1..4] {
        let at = |requests| power(planted.validity_pp, 0.0, (requests, 1, false));
        assert!(
            at(1000) + 0.05 >= at(200),
            "more requests find more: {planted:?}"
        );
    }
    for planted in &PLANTED[4..] {
        let at = |runs| power(0.0, planted.latency_percent, (200, runs, false));
        assert!(
            at(1) == 0.0 && at(5) + 0.05 >= at(3),
            "one run decides nothing about times, more runs find more: {planted:?}"
        );
    }
}

#[test]
fn docs_show_the_table() {
    let page = fs::read_to_string(repository_path("docs/compare.md")).unwrap();
    let table = table();
    for planted in PLANTED {
        let name = match planted {
            Planted {
                validity_pp: 0.0,
                latency_percent: 0.0,
            } => "nothing (false alarms)".to_owned(),
            Planted {
                validity_pp: 0.0,
                latency_percent,
            } => format!("{latency_percent} % of all times"),
            Planted { validity_pp, .. } => format!("{validity_pp} pp of validity"),
        };
        let cell = |size: (usize, usize, bool)| {
            let is = |line: &&Line| line.planted == planted && line.size() == size;
            format!("{:.1} %", 100.0 * share(table.iter().find(is).unwrap()))
        };
        let row = format!("| {name} | {} |", SIZES.map(cell).join(" | "));
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn sampled_pairs_match_the_table() {
    // With one failed gate in a hundred, more than two of these pairs fail with a probability of
    // 0.002; according to the table, even fewer fail.
    assert!(called(PLANTED[0], 3, 24) <= 2);
    let slower = Planted {
        validity_pp: 0.0,
        latency_percent: 20.0,
    };
    let (one, three) = (called(slower, 1, 8), called(slower, 3, 8));
    assert!(one == 0 && three >= 6, "{one} {three}");
    let found = called(
        Planted {
            validity_pp: 12.0,
            latency_percent: 0.0,
        },
        1,
        8,
    );
    assert!(found >= 7, "{found}");
}
