//! Findings that are alike, gathered: one witness stands for all of them. Knows no engine and no
//! file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::finding::{Finding, Proof, Reading};
use super::json_prefix::JsonPrefix;
use super::witness::Witness;
use crate::corpus::tags;
use sobench_core::constraint::{Constraint, is_json_kind};
use sobench_engine::{EngineName, Vocabulary};

/// What is alike in findings, told before they are made small: where it happened and with what.
/// That one engine's text showed it, or the corpus', is no difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) engine: EngineName,
    proof: Proof,
    /// [`Constraint::kind`].
    kind: String,
    /// What it is about, where the prefix stands, what the text breaks, or how the engine
    /// contradicts itself.
    place: String,
    /// The kind of the token's first character, where it is not known what it is about.
    token: Option<&'static str>,
}

/// Findings of one key.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    pub(crate) key: Key,
    pub(crate) schemas: BTreeSet<usize>,
    /// The smallest one, and the entry that it is of.
    pub(crate) best: (usize, Finding),
    size: usize,
}

/// All findings that are errors, gathered.
#[derive(Debug, Default)]
pub(crate) struct Gathering(BTreeMap<Key, Gathered>);

impl Gathering {
    /// Takes in a finding of the entry at `index`, whose constraint is of this kind and takes so
    /// many bytes. One that is declared is none.
    pub(crate) fn add(
        &mut self,
        engine: EngineName,
        index: usize,
        (kind, bytes): (&str, usize),
        finding: Finding,
        vocabulary: &Vocabulary,
    ) {
        if finding.reading != Reading::Error {
            return;
        }
        let key = Key::of(engine, kind, &finding, vocabulary);
        let size = bytes + finding.text.as_ref().map_or(0, String::len) + finding.prefix.len();
        let first = || Gathered {
            key: key.clone(),
            schemas: BTreeSet::new(),
            best: (index, finding.clone()),
            size,
        };
        let gathered = self.0.entry(key.clone()).or_insert_with(first);
        gathered.schemas.insert(index);
        if size < gathered.size {
            (gathered.best, gathered.size) = ((index, finding), size);
        }
    }

    /// All of them, those of the most schemas first.
    pub(crate) fn sorted(self) -> Vec<Gathered> {
        let mut all: Vec<Gathered> = self.0.into_values().collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.schemas.len()));
        all
    }
}

impl Key {
    fn of(engine: EngineName, kind: &str, finding: &Finding, vocabulary: &Vocabulary) -> Self {
        let first = finding
            .token
            .map(|token| vocabulary.bytes(token).first().copied());
        let token = match (finding.cause, first) {
            (Some(_), _) => None,
            (None, None) => Some("the end"),
            (None, Some(None)) => Some("a special token"),
            (None, Some(Some(byte))) => Some(class(byte)),
        };
        Self {
            engine,
            proof: alike(finding.proof),
            kind: kind.to_owned(),
            place: place_of(kind, finding, vocabulary),
            token,
        }
    }

    /// Where the finding that was made small stands; else where all of them do.
    pub(crate) fn place(&self, finding: Option<&Finding>, vocabulary: &Vocabulary) -> String {
        finding.map_or_else(
            || self.place.clone(),
            |finding| place_of(&self.kind, finding, vocabulary),
        )
    }
}

/// One proof for all that show an engine too strict, and one for all that show it to let whole
/// texts through.
fn alike(proof: Proof) -> Proof {
    match proof {
        Proof::DiffersStrict | Proof::RefusesEnd => Proof::RefusesToken,
        Proof::DiffersLoose => Proof::AllowsEnd,
        other => other,
    }
}

/// What it is about, what the text breaks, how the engine contradicts itself, or where the prefix
/// of a text of this kind stands.
fn place_of(kind: &str, finding: &Finding, vocabulary: &Vocabulary) -> String {
    let said = [
        finding
            .cause
            .map(|it| format!("{}, which is not declared", it.name())),
        finding.breaks.clone(),
        finding.contradiction.map(|it| it.says().to_owned()),
    ];
    said.into_iter().flatten().next().unwrap_or_else(|| {
        let is_json = is_json_kind(kind);
        let state = JsonPrefix::after(&vocabulary.decode(&finding.prefix)).filter(|_| is_json);
        let place = match state {
            Some(state) => state.place(),
            None if finding.prefix.is_empty() => "at the beginning",
            None if is_json => "after what is no JSON",
            None => "within the text",
        };
        place.to_owned()
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
    /// Schemas with such a finding; findings are kept in small number, so that it is at least so
    /// many.
    pub schemas: u64,
    /// Keywords of the witness' constraint, or its kind.
    pub keywords: Vec<String>,
    /// Where it happens, or what is broken.
    pub place: String,
    /// Made small and checked again; absent where it did not stand, or there were too many to make
    /// small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
    /// The first entries with such a finding.
    pub entries: Vec<String>,
}

/// Clusters whose witnesses came to the same: those of one engine and proof, with the same
/// keywords, at the same kind of place.
pub(crate) fn merged(all: Vec<(Cluster, BTreeSet<usize>)>) -> Vec<Cluster> {
    let mut merged: Vec<(Cluster, BTreeSet<usize>)> = Vec::new();
    for (cluster, schemas) in all {
        let same = |it: &&mut (Cluster, BTreeSet<usize>)| {
            let (it, new) = (&it.0, &cluster);
            it.witness.is_some()
                && (it.engine, &it.keywords, &it.place, alike(it.proof))
                    == (new.engine, &new.keywords, &new.place, alike(new.proof))
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

/// What a constraint is made of, in words: the keywords of a schema, or the constraint's kind.
pub(crate) fn keywords(constraint: &Constraint) -> Vec<String> {
    match constraint {
        Constraint::JsonSchema(schema) => tags::of_schema(schema),
        other => vec![other.kind().to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::prove::finding::Origin;

    #[test]
    fn where_a_text_stands_is_said_as_its_kind_is() {
        let bytes = Vocabulary::of_bytes();
        let place = |kind: &str, prefix: &str| {
            let tokens: Vec<u32> = prefix.bytes().map(u32::from).collect();
            place_of(
                kind,
                &Finding::new(Proof::AllowsToken, &tokens, None, Origin::Other),
                &bytes,
            )
        };
        for (kind, prefix, expected) in [
            ("json", "", "at a value"),
            ("json", "{\"a", "in a name"),
            ("json", "}", "after what is no JSON"),
            ("regex", "", "at the beginning"),
            ("grammar", "1", "within the text"),
        ] {
            assert_eq!(place(kind, prefix), expected, "{kind}: {prefix}");
        }
    }

    #[test]
    fn keywords_are_those_of_a_corpus_or_the_kind() {
        let schema = json!({"type": "object", "properties": {"type": {"enum": [{"x": 1}]}}, "description": "d", "items": [{"format": "date"}]});
        let found = keywords(&Constraint::JsonSchema(Arc::new(schema)));
        assert_eq!(
            found,
            ["enum", "format:date", "items", "properties", "type:object"]
        );
        assert_eq!(keywords(&Constraint::Regex("a".into())), ["regex"]);
    }
}
