//! Gate rules: rules format to text that parses back, a larger change never passes if a smaller one
//! failed, and any result is checked or refused.
//!
//! Bytes: rules, one per line; a NUL; a result.

use sobench_results::compare::rules::{ChangeRule, Direction, LimitRule};
use sobench_results::compare::{Side, gate, read};

use super::draw::Draw;

/// Sizes of changes, sorted.
const SIZES: [f64; 9] = [
    -f64::INFINITY,
    -100.0,
    -1.0,
    -0.0,
    0.0,
    0.5,
    1.0,
    100.0,
    f64::INFINITY,
];

pub(crate) fn check(bytes: &[u8]) {
    let (rules, result) = Draw::new(bytes).two_texts();
    let mut limits = Vec::new();
    for rule in rules.lines() {
        if let Ok(change) = ChangeRule::parse(rule) {
            reads_back(&change);
        }
        if let Ok(limit) = LimitRule::parse(rule) {
            assert_eq!(
                LimitRule::parse(&limit.to_string()).as_ref(),
                Ok(&limit),
                "{rule:?}"
            );
            assert!(!limit.is_met(f64::NAN), "NaN meets {limit}");
            limits.push(limit);
        }
    }
    let runs = match read::parse_runs("result.json", result.as_bytes()) {
        Ok(runs) => runs,
        Err(error) => {
            // An unreadable file is refused with a message.
            assert!(
                !error.what.is_empty() && error.hint.is_some(),
                "an error without a hint: {error}"
            );
            return;
        }
    };
    for run in runs {
        let rulings = gate::evaluate_limits(
            &limits,
            &Side {
                runs: vec![run],
                ..Side::default()
            },
            0.98,
        );
        assert_eq!(rulings.len(), limits.len());
        let is_kept = |ruling: &gate::LimitRuling| matches!(ruling.ruling, gate::Ruling::Kept);
        for ruling in rulings.iter().filter(|ruling| is_kept(ruling)) {
            assert!(
                ruling.value.is_some_and(|value| ruling.rule.is_met(value)),
                "{} passed without its value",
                ruling.rule
            );
        }
    }
}

fn reads_back(change: &ChangeRule) {
    assert_eq!(ChangeRule::parse(&change.to_string()).as_ref(), Ok(change));
    let past: Vec<bool> = SIZES.iter().map(|size| change.is_past(*size)).collect();
    let worse_later = change.direction == Direction::Up;
    assert!(
        past.windows(2)
            .all(|pair| pair[0] == pair[1] || pair[1] == worse_later),
        "{change}: {past:?}"
    );
    assert!(!change.is_past(0.0), "{change} fails for no change");
}
