//! The page of an acceptance: the verdict first, then each rule.

use super::json::{AcceptFile, PartResult};
use super::plan::{AcceptPlan, Work};
use sobench_core::printable::{printable, thousands};
use sobench_render::{Answer, Block, Document, Table, Tone};
use sobench_results::accept::{Decision, RateRule, RuleResult};
use sobench_results::compare::gate::Needs;

/// Rules that the verdict names; the others are counted.
const MAX_NAMED: usize = 4;

/// Width of the columns of text.
const CHARS: usize = 44;

pub(super) fn document(file: &AcceptFile) -> Document {
    let mut page = Document::new(format!("Acceptance: {}", file.name));
    page.push(Block::Verdict(vec![answer(file)]));
    if let Some(server) = &file.server {
        let version = server
            .version
            .as_ref()
            .map_or_else(String::new, |version| format!(", {version}"));
        page.paragraph(format!("{} at {}{version}", server.model, server.base_url));
        if server.is_synthetic() {
            page.paragraph(
                "the server runs a synthetic model: its figures do not describe a GPU server",
            );
        }
    }
    for part in &file.parts {
        if let Some(error) = &part.error {
            page.alarm(format!("{}: {error}", part.name));
        }
    }
    let mut table = Table::new(["run", "rule", "result", "figure", "shown"], 3)
        .wrapped(2, CHARS)
        .left_aligned(3)
        .left_aligned(4);
    for part in &file.parts {
        for (index, rule) in part.rules.iter().enumerate() {
            let name = name_in_row(&part.name, index);
            table.row([
                name,
                rule.rule.clone(),
                result(rule),
                figure(rule),
                shown(rule),
            ]);
        }
    }
    page.table(table);
    page.legend([
        "met: by chance in at most 5 % of servers at the limit, for each rule",
        "not met: by chance in at most 1 % of servers that meet all rules",
        "shown: the limit that these requests show to be met, at 95 %",
        "a rate stops early when it is decided (exact error spending); times are decided over runs (Student)",
    ]);
    let mut table = Table::new(["run", "requests", "of", "looks or runs"], 1);
    for part in &file.parts {
        table.row([
            part.name.clone(),
            thousands(part.requests as u64),
            thousands(part.planned as u64),
            part.looks.to_string(),
        ]);
    }
    page.titled_table("Requests", Some(table));
    for part in file.parts.iter().filter(|part| !part.run_logs.is_empty()) {
        for log in &part.run_logs {
            page.paragraph(format!("{}: sobench report {}", part.name, log.path));
        }
    }
    page
}

/// The name of a part, in the first row of its rules only.
fn name_in_row(name: &str, row: usize) -> String {
    if row == 0 {
        name.to_owned()
    } else {
        String::new()
    }
}

/// The verdict on all rules.
fn answer(file: &AcceptFile) -> Answer {
    let count = |decision| file.count(decision);
    let all = count(Decision::Met) + count(Decision::NotMet) + count(Decision::NotDecided);
    let named = |decision: Decision, about: fn(&RuleResult) -> String| {
        let rules = file
            .parts
            .iter()
            .flat_map(|part| part.rules.iter().map(move |rule| (part, rule)));
        let rules = rules.filter(|(_, rule)| rule.decision == decision);
        let texts: Vec<String> = rules
            .map(|(part, rule)| named_rule(part, rule, about))
            .collect();
        let more = texts.len().saturating_sub(MAX_NAMED);
        let mut text = texts
            .into_iter()
            .take(MAX_NAMED)
            .collect::<Vec<_>>()
            .join("; ");
        if more > 0 {
            text += &format!("; and {more} more");
        }
        text
    };
    let (met, not_decided) = (count(Decision::Met), count(Decision::NotDecided));
    let (tone, text) = match file.verdict {
        Decision::Met => (Tone::Good, format!("yes: rules met: {met} of {all}")),
        Decision::NotMet => {
            let open = match not_decided {
                0 => String::new(),
                count => format!("; {count} not decided"),
            };
            let what = named(Decision::NotMet, figure);
            (
                Tone::Alarm,
                format!(
                    "NO: rules not met: {} of {all}: {what}{open}",
                    count(Decision::NotMet)
                ),
            )
        }
        Decision::NotDecided => {
            let what = named(Decision::NotDecided, needs);
            (
                Tone::Plain,
                format!("not decided: rules met: {met} of {all}; {what}"),
            )
        }
    };
    Answer {
        question: "accepted",
        tone,
        text,
    }
}

fn named_rule(part: &PartResult, rule: &RuleResult, about: fn(&RuleResult) -> String) -> String {
    match about(rule) {
        about if about.is_empty() => format!("{} {}", part.name, rule.rule),
        about => format!("{} {} ({about})", part.name, rule.rule),
    }
}

/// The decision, with what would decide.
pub(super) fn result(rule: &RuleResult) -> String {
    match rule.decision {
        Decision::Met => "met".to_owned(),
        Decision::NotMet => "NOT MET".to_owned(),
        Decision::NotDecided => match needs(rule) {
            needs if needs.is_empty() => "not decided".to_owned(),
            needs => format!("not decided: {needs}"),
        },
    }
}

/// What would decide.
fn needs(rule: &RuleResult) -> String {
    match (&rule.needs, &rule.reason) {
        (Some(Needs::Requests(count)), _) => {
            format!("about {} requests decide", thousands(*count as u64))
        }
        (Some(Needs::Runs(runs)), _) => format!("about {runs} runs decide"),
        (None, Some(reason)) => printable(reason, 200),
        (None, None) => String::new(),
    }
}

fn figure(rule: &RuleResult) -> String {
    match (rule.hits, rule.of, rule.value) {
        (Some(hits), Some(of), Some(value)) => {
            format!("{hits} of {of} ({})", with_unit(value, rule.unit))
        }
        (_, _, Some(value)) => match rule.runs {
            Some(runs) if runs > 1 => format!("{} in {runs} runs", with_unit(value, rule.unit)),
            _ => with_unit(value, rule.unit) + &counted(rule),
        },
        _ => String::new(),
    }
}

/// What was counted, of a count that is not met.
fn counted(rule: &RuleResult) -> String {
    match &rule.reason {
        Some(counted) if rule.decision == Decision::NotMet => {
            format!(": {}", printable(counted, 200))
        }
        _ => String::new(),
    }
}

fn shown(rule: &RuleResult) -> String {
    rule.shown
        .map_or_else(String::new, |shown| with_unit(shown, rule.unit))
}

/// A number with two decimals where it has some.
fn with_unit(value: f64, unit: &str) -> String {
    let number = format!("{value:.2}");
    let number = number.trim_end_matches('0').trim_end_matches('.');
    match unit {
        "" => number.to_owned(),
        unit => format!("{number} {unit}"),
    }
}

/// What will be sent, and what decides.
pub(super) fn of_plan(plan: &AcceptPlan) -> Document {
    let mut page = Document::new(format!("Plan of {}", plan.name));
    let mut table = Table::new(["run", "rule", "requests", "fewest that can show it"], 2);
    for part in &plan.parts {
        let rows: Vec<[String; 3]> = match &part.work {
            Work::Runs(runs) => {
                let requests = thousands(runs.requests() as u64);
                let limits = runs.limits.iter().map(|rule| {
                    let fewest = RateRule::new(rule).and_then(|rate| rate.fewest_requests());
                    let fewest = fewest.map_or_else(String::new, |count| thousands(count as u64));
                    [rule.to_string(), requests.clone(), fewest]
                });
                let changes = runs
                    .changes
                    .iter()
                    .map(|rule| [rule.to_string(), requests.clone(), String::new()]);
                limits.chain(changes).collect()
            }
            Work::Preflight { rules, .. } | Work::Limits { rules, .. } => rules
                .iter()
                .map(|rule| [rule.to_string(), String::new(), String::new()])
                .collect(),
        };
        for (index, [rule, requests, fewest]) in rows.into_iter().enumerate() {
            let name = name_in_row(&part.name, index);
            table.row([name, rule, requests, fewest]);
        }
    }
    page.table(table);
    for part in &plan.parts {
        page.paragraph(format!("{}: {}", part.name, part.arguments.join(" ")));
    }
    page
}
