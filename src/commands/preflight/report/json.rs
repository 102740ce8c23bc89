//! The saved file. Knows no console. Its contract is `schemas/contracts/preflight.schema.json`. What is not known is `null`.

use serde_json::{Map, Value, json};

use crate::constraint::GrammarDialect;
use crate::notice::sentences;
use crate::preflight::{Cell, Class, Preflight, Recommendation};

/// The version of the file, raised whenever a key changes its meaning or goes away.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The whole file.
pub(crate) fn render(preflight: &Preflight) -> Value {
    let meanings: Map<String, Value> = Class::ALL
        .into_iter()
        .map(|class| (to_value(class).as_str().unwrap_or_default().to_owned(), class.meaning().into()))
        .collect();
    json!({
        "format": "sobench-preflight",
        "format_version": FORMAT_VERSION,
        "sobench_version": env!("CARGO_PKG_VERSION"),
        "about": about(preflight),
        "server": to_value(&preflight.facts),
        "control": {
            "answer": preflight.control.answer,
            "failure": preflight.control.failure.as_ref().map(to_value),
        },
        "requests": preflight.requests,
        "cells": preflight.cells.iter().map(cell).collect::<Value>(),
        "spelling": preflight.spelling.as_ref().map(to_value),
        "recommendation": preflight.recommendation().map(|it| recommendation(&it)),
        "passed": preflight.passed(),
        "notices": sentences(&preflight.notices),
        "classes": meanings,
    })
}

fn about(preflight: &Preflight) -> Value {
    let about = &preflight.about;
    json!({
        "backend": about.backend.name(),
        "base_url": about.base_url,
        "endpoint": about.path,
        "model": about.model,
        "seed": about.seed,
        "output_len": about.output_len,
        "stream": about.stream,
        "kinds": to_value(&about.kinds),
        "constraint_dialects": about.dialects.iter().map(|dialect| dialect.name()).collect::<Vec<_>>(),
        "grammar_dialect": about.notation.name(),
    })
}

fn cell(cell: &Cell) -> Value {
    let mut value = json!({
        "kind": cell.kind.name(),
        "grammar_dialect": cell.notation.map(GrammarDialect::name),
        "constraint_dialect": cell.dialect.name(),
        "asked_again": cell.asked_again,
    });
    if let (Value::Object(members), Value::Object(finding)) = (&mut value, to_value(&cell.finding)) {
        members.extend(finding);
    }
    value
}

fn recommendation(best: &Recommendation) -> Value {
    json!({
        "constraint_dialect": best.dialect.name(),
        "grammar_dialect": best.notation.map(GrammarDialect::name),
        "flags": best.flags(),
        "enforced": to_value(&best.enforced),
        "missing": to_value(&best.missing),
    })
}

fn to_value(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("findings hold only strings, numbers and structs of them, with string keys")
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::eventful;
    use super::*;
    use crate::preflight::testing::preflight;

    const CONTRACT: &str = include_str!("../../../../schemas/contracts/preflight.schema.json");

    fn check(file: &Value) -> Result<(), String> {
        let schema: Value = serde_json::from_str(CONTRACT).expect("the contract is JSON");
        jsonschema::draft202012::meta::validate(&schema).map_err(|error| format!("the contract itself: {error}"))?;
        let validator = jsonschema::draft202012::new(&schema).expect("the contract is a schema");
        let errors: Vec<String> = validator.iter_errors(file).map(|it| format!("{}: {it}", it.instance_path())).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    /// As a reader would have it: through text.
    fn read(value: &Value) -> Value {
        serde_json::from_str(&value.to_string()).expect("what we write is JSON")
    }

    #[test]
    fn every_file_keeps_the_contract() {
        assert_eq!(check(&read(&render(&eventful()))), Ok(()));
        assert_eq!(check(&read(&render(&preflight(Vec::new())))), Ok(()));
    }

    #[test]
    fn the_contract_bites() {
        let file = read(&render(&eventful()));
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
        ] {
            let mut broken = file.clone();
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            broken.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(member.to_owned(), value);
            assert!(check(&broken).is_err(), "{pointer} passed");
        }
    }
}
