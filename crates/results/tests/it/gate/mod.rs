//! Tests gates on simulated sides: at most one in a hundred fails on equal sides, planted losses are
//! found, and none of them passes. Create the whole table with `cargo run --release -p
//! sobench-results --example gate_power`; these tests check some of its pairs.

pub(crate) mod simulation;

use std::fs;

use sobench_results::compare::gate::GateVerdict;
use sobench_results::compare::{CompareSettings, compare};
use sobench_testkit::repository_path;

use self::simulation::{PAIRS, Rules, SETTINGS, Server, Setting};

/// A line of `fixtures/baselines/gate-power.csv`, in the order of [`SETTINGS`].
struct Line {
    setting: Setting,
    failed: u64,
    undecided: u64,
    passed: u64,
}

fn table() -> Vec<Line> {
    let text = fs::read_to_string(repository_path("fixtures/baselines/gate-power.csv")).unwrap();
    let line = |(line, setting): (&str, Setting)| {
        let cells: Vec<u64> = line
            .rsplit(',')
            .take(4)
            .map(|cell| cell.parse().unwrap())
            .collect();
        let [passed, undecided, failed, pairs] = cells[..] else {
            panic!("{line}")
        };
        assert!(
            line.starts_with(&setting.start_of_line()) && failed + undecided + passed == pairs,
            "{line}"
        );
        assert_eq!(pairs, PAIRS);
        Line {
            setting,
            failed,
            undecided,
            passed,
        }
    };
    let lines = text.lines().skip(1);
    assert_eq!(lines.clone().count(), SETTINGS.len());
    lines.zip(SETTINGS).map(line).collect()
}

/// The first cells of a row in the documentation.
fn name(setting: &Setting) -> String {
    let rules = match setting.rules {
        Rules::Default => "`--gate`",
        Rules::Guide => "rates",
    };
    let size = match setting.runs {
        1 => setting.requests.to_string(),
        runs => format!("{runs} x {}", setting.requests),
    };
    let planted = match (setting.validity_pp, setting.slower_percent) {
        (0.0, 0.0) => "nothing".to_owned(),
        (0.0, slower) => format!("{slower} % slower"),
        (loss, _) => format!("{loss} points"),
    };
    format!("{rules} | {size} | {} | {planted}", setting.server.name())
}

fn percent(count: u64) -> f64 {
    100.0 * count as f64 / PAIRS as f64
}

#[test]
fn table_keeps_the_promises_of_the_gate() {
    for Line {
        setting,
        failed,
        undecided,
        passed,
    } in table()
    {
        let (loss, slower) = (setting.validity_pp, setting.slower_percent);
        if (loss, slower) == (0.0, 0.0) {
            assert!(percent(failed) <= 1.0, "{setting:?}: {failed} false alarms");
        }
        if (loss, slower) == (0.0, 0.0) && (setting.rules == Rules::Guide || setting.runs == 5) {
            assert!(percent(undecided) <= 10.0, "{setting:?}: {undecided}");
        }
        let is_large = setting.runs * setting.requests >= 360;
        if (loss == 5.0 || slower == 20.0) && is_large {
            assert!(percent(failed) >= 95.0, "{setting:?}: {failed} found");
        }
        if loss >= 2.0 || slower >= 10.0 {
            assert!(percent(passed) <= 6.5, "{setting:?}: {passed} passed");
        }
        if loss == 5.0 || slower == 20.0 {
            assert!(percent(passed) <= 5.0, "{setting:?}: {passed} passed");
        }
    }
}

#[test]
fn docs_show_rows_of_the_table() {
    let page = fs::read_to_string(repository_path("docs/compare.md")).unwrap();
    let rows: Vec<String> = table()
        .iter()
        .map(|line| {
            let counts = [line.failed, line.undecided, line.passed];
            let cells = counts.map(|count| format!("{:.1} %", percent(count)));
            format!("| {} | {} |", name(&line.setting), cells.join(" | "))
        })
        .collect();
    let is_row = |line: &&str| {
        ["| `--gate` |", "| rates |"]
            .iter()
            .any(|start| line.starts_with(start))
            && line.ends_with(" % |")
    };
    let shown: Vec<&str> = page.lines().filter(is_row).collect();
    assert!(shown.len() >= 12, "{shown:?}");
    for line in shown {
        assert!(rows.iter().any(|row| row == line), "{line}");
    }
}

/// Whether the page of a pair leads with a difference.
fn claims(setting: Setting, pair: u64) -> bool {
    let options = CompareSettings {
        // Three runs a side, and rates, need no resamples.
        resamples: Some(1),
        seed: pair,
        ..CompareSettings::default()
    };
    let found = compare(setting.sides(pair).to_vec(), &options);
    assert!(found.is_comparable());
    !found.against[0].claims.is_empty()
}

#[test]
fn pages_rarely_lead_with_a_difference_of_equal_sides_and_find_planted_ones() {
    const PAGES: u64 = 400;
    let claimed = |server, validity_pp, slower_percent| {
        let setting = Setting {
            rules: Rules::Guide,
            runs: 3,
            requests: 100,
            server,
            validity_pp,
            slower_percent,
        };
        (0..PAGES).filter(|pair| claims(setting, *pair)).count()
    };
    // 5 %, and three standard deviations of such a count.
    for server in [Server::Valid, Server::Nearly, Server::HardVaries] {
        let pages = claimed(server, 0.0, 0.0);
        println!("{server:?}: {pages} of {PAGES} pages over equal sides claim a difference");
        assert!(pages <= 33, "{server:?}: {pages}");
    }
    for (loss, slower, least) in [(5.0, 0.0, 300), (0.0, 20.0, 300)] {
        let pages = claimed(Server::Nearly, loss, slower);
        println!("{loss} points, {slower} % slower: found on {pages} of {PAGES} pages");
        assert!(pages >= least, "{loss} points, {slower} % slower: {pages}");
    }
}

#[test]
fn sampled_pairs_match_the_table() {
    for line in table() {
        // The same pairs as the first ones of the table.
        let pairs = if line.setting.requests > 200 { 4 } else { 8 };
        let verdicts: Vec<GateVerdict> =
            (0..pairs).map(|pair| line.setting.verdict(pair)).collect();
        for (verdict, count) in [
            (GateVerdict::Failed, line.failed),
            (GateVerdict::Undecided, line.undecided),
            (GateVerdict::Passed, line.passed),
        ] {
            let found = verdicts.iter().filter(|found| **found == verdict).count();
            let expected = count as f64 / PAIRS as f64 * pairs as f64;
            // More than four standard deviations of a binomial count, and one more, do not happen.
            let spread = 4.0 * (expected * (1.0 - expected / pairs as f64)).sqrt() + 1.0;
            assert!(
                (found as f64 - expected).abs() <= spread,
                "{:?}: {found} of {pairs} {verdict:?}, {expected} expected",
                line.setting
            );
        }
    }
}
