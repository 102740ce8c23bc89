//! `--mix`: several datasets with their shares, turned into a plan.

use std::str::FromStr;

use super::dataset::reset_flags_of_others;
use crate::commands::bench::args::BenchArgs;
use sobench_backend::ServerKind;
use sobench_core::error::{Error, Result};
use sobench_data::dataset::{DatasetName, DatasetPlan, MixPart, MixPlan, Source};
use sobench_plan::dataset::Constraints;

/// One dataset of a mix, written `NAME:SHARE` or `NAME=PATH:SHARE`.
#[derive(Clone, Debug, PartialEq)]
struct ParsedPart {
    name: DatasetName,
    path: Option<String>,
    share: f64,
}

/// Turns a mix and the flags of its datasets into a plan.
///
/// # Errors
/// Usage errors that name the part and the problem.
pub(crate) fn plan(
    arguments: &BenchArgs,
    backend: ServerKind,
    spec: &str,
    num_prompts: usize,
) -> Result<DatasetPlan> {
    let parsed = parse(spec)?;
    let names: Vec<DatasetName> = parsed.iter().map(|part| part.name).collect();
    let pathless = parsed
        .iter()
        .filter(|part| part.path.is_none() && part.name.reads_path())
        .count();
    if pathless > 1 && arguments.dataset.path.dataset_path.is_some() {
        return Err(
            Error::usage("several datasets of --mix would read the same --dataset-path").hint(
                "give each its own path: --mix 'sharegpt=chats.json:0.7,custom=rows.jsonl:0.3'",
            ),
        );
    }
    let mut parts = Vec::new();
    for ParsedPart { name, path, share } in parsed {
        let mut flags = arguments.clone();
        flags.dataset.mix = None;
        reset_flags_of_others(&mut flags, name, &names);
        if path.is_some() {
            flags.dataset.path.dataset_path = path.map(Into::into);
        }
        parts.push(MixPart {
            share,
            // Shares are of requests, so a row makes one.
            plan: DatasetPlan {
                arms: Vec::new(),
                ..super::dataset::plan(&flags, backend, name, num_prompts)?
            },
        });
    }
    let first = parts
        .first()
        .ok_or_else(|| Error::internal("an empty mix"))?
        .plan
        .clone();
    if parts.iter().any(|part| !part.plan.cells.is_empty()) {
        return Err(Error::usage(
            "a mix has no map: --context-tokens or several --tools-per-request",
        )
        .hint("make the map of one dataset, with --dataset in place of --mix"));
    }
    let constrained = parts
        .iter()
        .find(|part| part.plan.constraints == Constraints::Kept)
        .map(|part| &part.plan);
    Ok(DatasetPlan {
        constrained_ratio: constrained.map_or(0.0, |plan| plan.constrained_ratio),
        constraints: constrained.map_or(Constraints::Dropped, |plan| plan.constraints),
        source: Source::Mix(MixPlan { parts }),
        ..first
    })
}

fn parse(spec: &str) -> Result<Vec<ParsedPart>> {
    let wrong = |part: &str, why: &str| {
        Error::usage(format!("--mix: {why}: {part}"))
            .hint("write NAME:SHARE or NAME=PATH:SHARE, e.g. 'sharegpt=chats.json:0.7,json:0.3'")
    };
    let mut parts: Vec<ParsedPart> = Vec::new();
    for part in spec.split(',') {
        let (dataset, share) = part
            .rsplit_once(':')
            .ok_or_else(|| wrong(part, "dataset without a share"))?;
        let share = share
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|share| share.is_finite() && *share > 0.0);
        let share = share.ok_or_else(|| wrong(part, "share is not above 0"))?;
        let (name, path) = dataset
            .split_once('=')
            .map_or((dataset, None), |(name, path)| {
                (name, Some(path.trim().to_owned()))
            });
        let name = DatasetName::from_str(name.trim())?;
        if name == DatasetName::Audio {
            return Err(wrong(
                part,
                "audio cannot be mixed, because it has its own endpoint",
            ));
        }
        if parts.iter().any(|other| other.name == name) {
            return Err(wrong(part, "dataset given twice"));
        }
        if path.is_some() && !name.reads_path() {
            return Err(wrong(part, "this dataset reads no file"));
        }
        parts.push(ParsedPart { name, path, share });
    }
    if parts.len() < 2 {
        return Err(wrong(spec, "a mix needs at least two datasets"));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_parsed_into_names_paths_and_shares() {
        let found = parse("sharegpt=C:/chats.json:0.7, json:0.2,grammar:1e-1").unwrap();
        let parts: Vec<_> = found
            .iter()
            .map(|part| (part.name, part.path.as_deref(), part.share))
            .collect();
        assert_eq!(
            parts,
            [
                (DatasetName::Sharegpt, Some("C:/chats.json"), 0.7),
                (DatasetName::Json, None, 0.2),
                (DatasetName::Grammar, None, 0.1)
            ]
        );
        for (spec, message) in [
            ("json", "dataset without a share: json"),
            ("json:0", "share is not above 0: json:0"),
            ("json:nan,regex:1", "share is not above 0"),
            ("json:1", "a mix needs at least two datasets"),
            ("json:1,json:2", "twice"),
            ("json=x:1,regex:1", "reads no file"),
            ("audio:1,json:1", "cannot be mixed"),
            ("jsn:1,json:1", "unknown dataset: jsn"),
            ("", "without a share"),
        ] {
            assert!(
                parse(spec).unwrap_err().what.contains(message),
                "{spec}: {}",
                parse(spec).unwrap_err().what
            );
        }
    }
}
