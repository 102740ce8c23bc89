//! Findings that are alike, gathered: one witness stands for all of them. Knows no engine and no file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::finding::{Finding, Mutation, Origin, Proof, Reading};
use super::json_prefix::JsonPrefix;
use super::witness::Witness;
use crate::constraint::Constraint;
use crate::engine::{EngineName, Vocabulary};

/// What is alike in findings, told before they are made small: where it happened and with what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::mask) struct Key {
    pub(in crate::mask) engine: EngineName,
    pub(in crate::mask) proof: Proof,
    /// The way in which the text was rewritten, where it was.
    mutation: Option<Mutation>,
    /// Where the prefix stands, what the text breaks, or how the engine contradicts itself.
    place: String,
    /// The kind of the token's first character.
    token: &'static str,
}

/// Findings of one key.
#[derive(Clone, Debug)]
pub(in crate::mask) struct Gathered {
    pub(in crate::mask) key: Key,
    pub(in crate::mask) schemas: BTreeSet<usize>,
    /// The smallest one, and the entry that it is of.
    pub(in crate::mask) best: (usize, Finding),
    size: usize,
}

/// All findings that are errors, gathered.
#[derive(Debug, Default)]
pub(in crate::mask) struct Gathering(BTreeMap<Key, Gathered>);

impl Gathering {
    /// Takes in a finding of the entry at `index`, whose constraint takes so many bytes. One that is declared is none.
    pub(in crate::mask) fn add(
        &mut self,
        engine: EngineName,
        index: usize,
        bytes: usize,
        finding: Finding,
        vocabulary: &Vocabulary,
    ) {
        if finding.reading != Reading::Error {
            return;
        }
        let key = Key::of(engine, &finding, vocabulary);
        let size = bytes + finding.text.as_ref().map_or(0, String::len) + finding.prefix.len();
        match self.0.get_mut(&key) {
            Some(gathered) => {
                gathered.schemas.insert(index);
                if size < gathered.size {
                    (gathered.best, gathered.size) = ((index, finding), size);
                }
            }
            None => {
                let gathered = Gathered { key: key.clone(), schemas: BTreeSet::from([index]), best: (index, finding), size };
                self.0.insert(key, gathered);
            }
        }
    }

    /// All of them, those of the most schemas first.
    pub(in crate::mask) fn sorted(self) -> Vec<Gathered> {
        let mut all: Vec<Gathered> = self.0.into_values().collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.schemas.len()));
        all
    }
}

impl Key {
    fn of(engine: EngineName, finding: &Finding, vocabulary: &Vocabulary) -> Self {
        let mutation = match finding.origin {
            Origin::Mutant(_, mutation) => Some(mutation),
            Origin::Instance(_) | Origin::Walk(_) | Origin::Other => None,
        };
        let place = place_of(finding, vocabulary);
        let first = finding.token.map(|token| vocabulary.bytes(token).first().copied());
        let token = match first {
            None => "the end",
            Some(None) => "a special token",
            Some(Some(byte)) => class(byte),
        };
        Self { engine, proof: finding.proof, mutation, place, token }
    }

    /// Where the finding that was made small stands; else where all of them do.
    pub(in crate::mask) fn place(&self, finding: Option<&Finding>, vocabulary: &Vocabulary) -> String {
        finding.map_or_else(|| self.place.clone(), |finding| place_of(finding, vocabulary))
    }
}

/// What the text breaks, how the engine contradicts itself, or where the prefix stands.
fn place_of(finding: &Finding, vocabulary: &Vocabulary) -> String {
    let said = finding.breaks.clone().or_else(|| finding.contradiction.map(|it| it.says().to_owned()));
    said.unwrap_or_else(|| {
        let state = JsonPrefix::after(&vocabulary.decode(&finding.prefix));
        state.map_or("after what is no JSON", |state| state.place()).to_owned()
    })
}

fn class(byte: u8) -> &'static str {
    match byte {
        b'"' => "a quote",
        b'\\' => "a backslash",
        b'{' | b'}' | b'[' | b']' => "a bracket",
        b',' | b':' => "a separator",
        b'0'..=b'9' | b'-' | b'+' | b'.' => "a digit or sign",
        b' ' | b'\t' | b'\n' | b'\r' => "white space",
        0..=0x1f | 0x7f => "a control character",
        0x80.. => "a byte beyond ASCII",
        _ => "another character",
    }
}

/// Errors that are alike, with the witness that stands for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    pub engine: EngineName,
    pub proof: Proof,
    /// Schemas with such a finding; findings are kept in small number, so that it is at least so many.
    pub schemas: u64,
    /// Keywords of the witness' constraint, or its kind.
    pub keywords: Vec<String>,
    /// Where it happens, or what is broken.
    pub place: String,
    /// Made small and checked again; absent where it did not stand, or there were too many to make small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
    /// The first entries with such a finding.
    pub entries: Vec<String>,
}

/// Clusters whose witnesses came to the same: those of one engine and proof, with the same keywords, at the same kind of place.
pub(in crate::mask) fn merged(all: Vec<(Cluster, BTreeSet<usize>)>) -> Vec<Cluster> {
    let mut merged: Vec<(Cluster, BTreeSet<usize>)> = Vec::new();
    for (cluster, schemas) in all {
        let same = |it: &&mut (Cluster, BTreeSet<usize>)| {
            let (it, new) = (&it.0, &cluster);
            let proofs = |cluster: &Cluster| cluster.witness.as_ref().map(|it| it.finding.proof);
            it.witness.is_some()
                && (it.engine, &it.keywords, &it.place, proofs(it)) == (new.engine, &new.keywords, &new.place, proofs(new))
        };
        match merged.iter_mut().find(same) {
            Some((cluster_before, before)) => {
                before.extend(schemas);
                cluster_before.schemas = before.len() as u64;
            }
            None => merged.push((cluster, schemas)),
        }
    }
    let mut merged: Vec<Cluster> = merged.into_iter().map(|(cluster, _)| cluster).collect();
    merged.sort_by_key(|it| (std::cmp::Reverse(it.schemas), it.engine, it.proof));
    merged
}

/// What a constraint is made of, in words: the keywords of a schema with what they are set to where that is a word, or the constraint's kind.
pub(in crate::mask) fn keywords(constraint: &Constraint) -> Vec<String> {
    let Constraint::JsonSchema(schema) = constraint else { return vec![constraint.kind().to_owned()] };
    let mut found = BTreeSet::new();
    gather_keywords(schema, &mut found);
    found.into_iter().collect()
}

/// Keywords whose members are names, and not keywords.
const NAMED: [&str; 6] = ["properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies"];

/// Keywords that say nothing of an instance.
const SILENT: [&str; 9] = ["title", "description", "$schema", "$id", "id", "$comment", "examples", "default", "x-guidance"];

fn gather_keywords(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| !SILENT.contains(&name.as_str())) {
                match value {
                    Value::String(word) if name == "type" || name == "format" => found.insert(format!("{name}:{word}")),
                    _ => found.insert(name.clone()),
                };
                match value {
                    _ if matches!(name.as_str(), "enum" | "const" | "required") => {}
                    Value::Object(named) if NAMED.contains(&name.as_str()) => {
                        named.values().for_each(|schema| gather_keywords(schema, found));
                    }
                    value => gather_keywords(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather_keywords(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn keywords_are_told_from_names() {
        let schema = json!({"type": "object", "properties": {"type": {"enum": [{"x": 1}]}}, "description": "d", "items": [{"format": "date"}]});
        let found = keywords(&Constraint::JsonSchema(Arc::new(schema)));
        assert_eq!(found, ["enum", "format:date", "items", "properties", "type:object"]);
        assert_eq!(keywords(&Constraint::Regex("a".into())), ["regex"]);
    }
}
