//! Tests the default gate on simulated runs: at most one gate in a hundred fails on equal sides,
//! and planted regressions are found. Create the whole table with `cargo run --release -p
//! sobench-results --example gate_power`; these tests check some of its pairs.

pub(crate) mod simulation;

use std::fs;

use sobench_testkit::repository_path;

use self::simulation::{PLANTED, Planted, Setting, broken};

/// A line of `fixtures/baselines/gate-power.csv`; `called` counts failed gates.
struct Line {
    planted: Planted,
    requests: usize,
    runs: usize,
    pairs: u64,
    called: u64,
}

fn table() -> Vec<Line> {
    let text = fs::read_to_string(repository_path("fixtures/baselines/gate-power.csv")).unwrap();
    let line = |line: &str| {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let [validity_pp, latency_percent, requests, runs, pairs, called] = cells[..] else {
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
            pairs: pairs as u64,
            called: called as u64,
        }
    };
    text.lines().skip(1).map(line).collect()
}

fn share(line: &Line) -> f64 {
    line.called as f64 / line.pairs as f64
}

/// Number of failed gates among the first pairs of a line.
fn called(planted: Planted, requests: usize, pairs: u64) -> u64 {
    (0..pairs)
        .map(|pair| {
            u64::from(
                !broken(
                    Setting {
                        planted,
                        requests,
                        runs: 1,
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
        nothing.iter().filter(|line| line.pairs >= 1000).count() >= 2,
        "a thousand pairs of equal sides, at two sizes"
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
    let power = |validity_pp: f64, latency_percent: f64, requests: usize| {
        let planted = Planted {
            validity_pp,
            latency_percent,
        };
        table
            .iter()
            .find(|line| line.planted == planted && line.requests == requests && line.runs == 1)
            .map(share)
            .unwrap()
    };
    // Guards against regressions of the gate's power.
    assert!(
        power(5.0, 0.0, 1000) >= 0.95
            && power(0.0, 20.0, 1000) >= 0.95
            && power(0.0, 20.0, 200) >= 0.9
    );
    for planted in &PLANTED[1..] {
        let at = |requests| power(planted.validity_pp, planted.latency_percent, requests);
        assert!(
            at(1000) + 0.05 >= at(200),
            "more requests find more: {planted:?}"
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
        let cell = |(requests, runs): (usize, usize)| {
            let is = |line: &&Line| {
                line.planted == planted && (line.requests, line.runs) == (requests, runs)
            };
            format!("{:.1} %", 100.0 * share(table.iter().find(is).unwrap()))
        };
        let row = format!(
            "| {name} | {} |",
            [(200, 1), (1000, 1), (200, 5)].map(cell).join(" | ")
        );
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn sampled_pairs_match_the_table() {
    // With one failed gate in a hundred, more than two of these pairs fail with a probability of
    // 0.002; according to the table, even fewer fail.
    assert!(called(PLANTED[0], 200, 24) <= 2);
    assert_eq!(
        called(
            Planted {
                validity_pp: 0.0,
                latency_percent: 20.0
            },
            200,
            8
        ),
        8
    );
    let found = called(
        Planted {
            validity_pp: 12.0,
            latency_percent: 0.0,
        },
        200,
        8,
    );
    assert!(found >= 7, "{found}");
}
