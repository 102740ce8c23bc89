//! The JSON file of a preflight, specified by `schemas/contracts/preflight.schema.json`. Unknown
//! values are `null`.

use serde_json::{Map, Value, json};

use sobench_notices::notice::sentences;
use sobench_preflight::{Class, Preflight, ReasoningPreflight, ReasoningResult};

/// The format version, increased when a key changes its meaning or is removed.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The whole file.
pub(crate) fn render(preflight: &Preflight) -> Value {
    let meanings: Map<String, Value> = Class::ALL
        .into_iter()
        .map(|class| (key(class), class.meaning().into()))
        .collect();
    let recommendation = preflight.recommendation().map(|best| {
        json!({
            "constraint_dialect": best.dialect,
            "grammar_dialect": best.notation,
            "flags": best.flags(),
            "enforced": best.enforced,
            "missing": best.missing,
        })
    });
    let tool_calls = preflight.tool_calls.as_ref().map(|found| {
        json!({
            "control": found.control,
            "calls_unasked": found.calls_unasked,
            "cells": found.cells,
            "differences": found.differences(),
            "passed": found.passed(),
        })
    });
    json!({
        "format": "sobench-preflight",
        "format_version": FORMAT_VERSION,
        "sobench_version": env!("CARGO_PKG_VERSION"),
        "about": preflight.about,
        "server": preflight.facts,
        "control": preflight.control,
        "requests": preflight.requests,
        "cells": preflight.cells,
        "spelling": preflight.spelling,
        "tool_calls": tool_calls,
        "reasoning": preflight.reasoning.as_ref().map(reasoning),
        "recommendation": recommendation,
        "passed": preflight.passed(),
        "notices": sentences(&preflight.notices),
        "classes": meanings,
    })
}

/// The results for the reasoning boundary.
fn reasoning(found: &ReasoningPreflight) -> Value {
    let result = |result: &ReasoningResult| {
        json!({
            "thinking": result.thinking,
            "verdict": result.verdict,
            "words": result.reason,
            "advice": result.verdict.advice(),
        })
    };
    let results: Vec<Value> = found.results.iter().map(result).collect();
    json!({
        "constraint_dialect": found.dialect,
        "switch": found.switch,
        "word": found.word,
        "answers": found.answers,
        "results": results,
        "passed": found.passed(),
    })
}

/// The name of a value in files.
pub(super) fn key(name: impl serde::Serialize) -> String {
    json!(name).as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::{eventful, eventful_with_all_kinds};
    use super::*;
    use sobench_preflight::testing::preflight;
    use sobench_testkit::contract;

    const CONTRACT: &str = include_str!("../../../../schemas/contracts/preflight.schema.json");

    fn check(file: &Value) -> std::result::Result<(), String> {
        contract::check(CONTRACT, file)
    }

    /// Converts to text and back, as a reader sees it.
    fn read(value: &Value) -> Value {
        serde_json::from_str(&value.to_string()).expect("what we write is JSON")
    }

    #[test]
    fn files_match_the_contract() {
        assert_eq!(check(&read(&render(&eventful()))), Ok(()));
        assert_eq!(check(&read(&render(&eventful_with_all_kinds()))), Ok(()));
        assert_eq!(check(&read(&render(&preflight(Vec::new())))), Ok(()));
    }

    #[test]
    fn the_contract_rejects_invalid_files() {
        let file = read(&render(&eventful_with_all_kinds()));
        for (pointer, value) in [
            ("/extra", json!(1)),
            ("/format_version", json!(2)),
            ("/cells/0/class", json!("perhaps")),
            ("/cells/0/extra", json!(1)),
            ("/cells/0/status", json!("400")),
            ("/server/product", json!("nginx")),
            ("/about/seed", json!(-1)),
            ("/recommendation/flags", json!(null)),
            ("/spelling/white_space", json!("odd")),
            ("/tool_calls/cells/0/row", json!("some")),
            ("/tool_calls/cells/0/part", json!("name")),
            ("/reasoning/results/0/verdict", json!("good")),
            ("/reasoning/answers/0/extra", json!(1)),
        ] {
            let broken = contract::with_member(&file, pointer, value);
            assert!(check(&broken).is_err(), "{pointer} passed");
        }
    }
}
