//! The shipped workloads. They are compared with the files that they were generated from, and with
//! the evaluator.

use std::sync::OnceLock;

use serde::Deserialize;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::verdict::Verdict;
use sobench_data::dataset::{
    self, ChoicePlan, DatasetPlan, GrammarPlan, JsonPlan, JsonSchemaSource, RegexPlan, Source,
};
use sobench_data::tokenizer::Tokenizer;
use sobench_judge::{Evaluator, JudgeSettings, judge_text};

const TEXT: &str = include_str!("../../../../../fixtures/mask/workloads.jsonl");

/// Minimum number of valid and invalid texts of a workload. A choice may have fewer valid ones.
const MIN_INSTANCES: usize = 6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) constraint: Constraint,
    pub(super) instances: Vec<Instance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Instance {
    pub(super) text: String,
    pub(super) valid: bool,
}

pub(super) fn workloads() -> &'static [Workload] {
    static SHARED: OnceLock<Vec<Workload>> = OnceLock::new();
    SHARED.get_or_init(|| {
        TEXT.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    })
}

#[track_caller]
pub(super) fn workload(name: &str) -> &'static Workload {
    workloads()
        .iter()
        .find(|workload| workload.name == name)
        .unwrap_or_else(|| panic!("no such workload: {name}"))
}

#[test]
fn labels_agree_with_the_evaluator() {
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let mut mismatches = Vec::new();
    for workload in workloads() {
        let valid = workload
            .instances
            .iter()
            .filter(|instance| instance.valid)
            .count();
        let min_valid = if let Constraint::Choice(choices) = &workload.constraint {
            choices.len()
        } else {
            MIN_INSTANCES
        };
        assert!(
            valid >= min_valid.min(MIN_INSTANCES)
                && workload.instances.len() - valid >= MIN_INSTANCES,
            "{}",
            workload.name
        );
        for instance in &workload.instances {
            let constraint = evaluator.compile(&workload.constraint);
            let verdict = judge_text(&constraint, &instance.text);
            if (verdict == Verdict::Valid) != instance.valid
                || matches!(verdict, Verdict::NotScored { .. })
            {
                mismatches.push(format!(
                    "{}, {:?}: {verdict:?}",
                    workload.name, instance.text
                ));
            }
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

/// Returns the constraint of the first row of a dataset.
fn first_constraint(source: Source, grammar_dialect: GrammarDialect) -> Constraint {
    let plan = DatasetPlan {
        grammar_dialect,
        ..DatasetPlan::with_defaults(source, 1, 128)
    };
    let loaded = dataset::load(&plan, &Tokenizer::embedded()).unwrap();
    Constraint::clone(loaded.cases[0].constraint.as_ref().unwrap())
}

#[test]
fn workloads_have_the_constraints_of_their_datasets() {
    let json = |json_schema| {
        Source::Json(JsonPlan {
            json_schema,
            ..JsonPlan::default()
        })
    };
    let (lark, ebnf) = (GrammarDialect::Lark, GrammarDialect::Ebnf);
    for (name, source, dialect) in [
        ("brief profile", json(JsonSchemaSource::Brief), ebnf),
        ("nested profile", json(JsonSchemaSource::Nested), ebnf),
        ("sql in lark", Source::Grammar(GrammarPlan::default()), lark),
        ("sql in ebnf", Source::Grammar(GrammarPlan::default()), ebnf),
        ("e-mail regex", Source::Regex(RegexPlan::default()), ebnf),
        (
            "sentiment choice",
            Source::Choice(ChoicePlan::default()),
            ebnf,
        ),
    ] {
        assert!(
            workload(name).constraint == first_constraint(source, dialect),
            "{name}"
        );
    }
}
