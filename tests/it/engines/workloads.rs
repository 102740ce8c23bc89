//! The shipped workloads: read as they ship, held to the files they were made from and to our own evaluator.

use std::sync::OnceLock;

use serde::Deserialize;
use sobench::constraint::{Constraint, GrammarDialect, GrammarSpelling};
use sobench::dataset::{self, AudioSource, Constraints, DatasetName, DatasetPlan, Drawing, JsonSchemaSource, PromptForm};
use sobench::evaluate::{EvaluateOptions, Evaluator};
use sobench::tokenizer::Tokenizer;
use sobench::verdict::Verdict;

const TEXT: &str = include_str!("../../../fixtures/mask/workloads.jsonl");

/// Texts of either kind that a workload has at least; a choice may have fewer valid ones.
const LEAST_INSTANCES: usize = 6;

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
    SHARED.get_or_init(|| TEXT.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[track_caller]
pub(super) fn workload(name: &str) -> &'static Workload {
    workloads().iter().find(|workload| workload.name == name).unwrap_or_else(|| panic!("no such workload: {name}"))
}

#[test]
fn labels_are_the_evaluator_s() {
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let mut wrong = Vec::new();
    for workload in workloads() {
        let valid = workload.instances.iter().filter(|instance| instance.valid).count();
        let least = if let Constraint::Choice(choices) = &workload.constraint { choices.len() } else { LEAST_INSTANCES };
        assert!(valid >= least.min(LEAST_INSTANCES) && workload.instances.len() - valid >= LEAST_INSTANCES, "{}", workload.name);
        for instance in &workload.instances {
            let verdict = evaluator.judge_text(&workload.constraint, None, &instance.text);
            if (verdict == Verdict::Valid) != instance.valid || matches!(verdict, Verdict::NotScored { .. }) {
                wrong.push(format!("{}, {:?}: {verdict:?}", workload.name, instance.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The constraint of a dataset's first row.
fn asked_by(name: DatasetName, json_schema: JsonSchemaSource, grammar_dialect: GrammarDialect) -> Constraint {
    let plan = DatasetPlan {
        name,
        num_prompts: 1,
        output_len: 128,
        seed: 0,
        constrained_ratio: 1.0,
        constraints: Constraints::Kept,
        prompt_form: PromptForm::Text,
        audio: AudioSource::Generated { seconds: 1.0 },
        json_schema,
        grammar_path: None,
        grammar_dialect,
        grammar_spelling: GrammarSpelling::AsWritten,
        grammar_oracle: None,
        regex: None,
        choice: None,
        dataset_path: None,
        drawing: Drawing::default(),
        mix: Vec::new(),
    };
    let loaded = dataset::load(&plan, &Tokenizer::embedded()).unwrap();
    Constraint::clone(loaded.cases[0].constraint.as_ref().unwrap())
}

#[test]
fn workloads_of_datasets_are_what_the_datasets_ask() {
    let (brief, nested) = (JsonSchemaSource::Brief, JsonSchemaSource::Nested);
    let (lark, ebnf) = (GrammarDialect::Lark, GrammarDialect::Ebnf);
    for (name, dataset, schema, dialect) in [
        ("brief profile", DatasetName::Json, brief.clone(), ebnf),
        ("nested profile", DatasetName::Json, nested, ebnf),
        ("sql in lark", DatasetName::Grammar, brief.clone(), lark),
        ("sql in ebnf", DatasetName::Grammar, brief.clone(), ebnf),
        ("e-mail regex", DatasetName::Regex, brief.clone(), ebnf),
        ("sentiment choice", DatasetName::Choice, brief, ebnf),
    ] {
        assert!(workload(name).constraint == asked_by(dataset, schema, dialect), "{name}");
    }
}
