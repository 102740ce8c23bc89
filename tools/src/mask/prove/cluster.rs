//! Groups similar findings; one witness represents each group.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::{Finding, Interpretation, Proof};
use super::json_prefix::JsonPrefix;
use super::witness::Witness;
use sobench_core::constraint::{Constraint, ConstraintKind};
use sobench_engine::{EngineName, Vocabulary};

/// Key of a group of unshrunk findings: location and kind. The origin of the text does not matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClusterKey {
    pub(crate) engine: EngineName,
    proof: Proof,
    /// [`Constraint::kind`].
    kind: String,
    /// The cause, the violated rule, the contradiction, or the syntactic position after the prefix.
    place: String,
    /// The class of the token's first byte, if the cause is unknown.
    token: Option<&'static str>,
}

/// Findings with the same key.
#[derive(Clone, Debug)]
pub(crate) struct FindingGroup {
    pub(crate) key: ClusterKey,
    pub(crate) schemas: BTreeSet<usize>,
    /// The smallest finding and the index of its entry.
    pub(crate) smallest: (usize, Finding),
    size: usize,
}

/// All findings that are errors, by group.
#[derive(Debug, Default)]
pub(crate) struct FindingGroups(BTreeMap<ClusterKey, FindingGroup>);

impl FindingGroups {
    /// Adds a finding of the entry at `index`, whose constraint has this kind and size in bytes.
    /// Declared findings are ignored.
    pub(crate) fn add(
        &mut self,
        engine: EngineName,
        index: usize,
        (kind, bytes): (&str, usize),
        finding: Finding,
        vocabulary: &Vocabulary,
    ) {
        if finding.interpretation != Interpretation::Error {
            return;
        }
        let key = ClusterKey::new(engine, kind, &finding, vocabulary);
        let size = bytes + finding.text.as_ref().map_or(0, String::len) + finding.prefix.len();
        let group = self.0.entry(key.clone()).or_insert_with(|| FindingGroup {
            key: key.clone(),
            schemas: BTreeSet::new(),
            smallest: (index, finding.clone()),
            size,
        });
        group.schemas.insert(index);
        if size < group.size {
            (group.smallest, group.size) = ((index, finding), size);
        }
    }

    /// All groups, those with the most schemas first.
    pub(crate) fn sorted(self) -> Vec<FindingGroup> {
        let mut all: Vec<FindingGroup> = self.0.into_values().collect();
        all.sort_by_key(|group| std::cmp::Reverse(group.schemas.len()));
        all
    }
}

impl ClusterKey {
    fn new(engine: EngineName, kind: &str, finding: &Finding, vocabulary: &Vocabulary) -> Self {
        let first = finding
            .token
            .map(|token| vocabulary.bytes(token).first().copied());
        let token = match (finding.cause, first) {
            (Some(_), _) => None,
            (None, None) => Some("the end"),
            (None, Some(None)) => Some("a special token"),
            (None, Some(Some(byte))) => Some(byte_class(byte)),
        };
        Self {
            engine,
            proof: proof_family(finding.proof),
            kind: kind.to_owned(),
            place: describe_place(kind, finding, vocabulary),
            token,
        }
    }

    /// Location of the shrunk finding, or of the group.
    pub(crate) fn place(&self, finding: Option<&Finding>, vocabulary: &Vocabulary) -> String {
        finding.map_or_else(
            || self.place.clone(),
            |finding| describe_place(&self.kind, finding, vocabulary),
        )
    }
}

/// Maps proofs of the same error to one: all that show a refused valid text, and all that show an
/// accepted invalid text.
fn proof_family(proof: Proof) -> Proof {
    match proof {
        Proof::DiffersStrict | Proof::RefusesEnd => Proof::RefusesToken,
        Proof::DiffersLoose => Proof::AllowsEnd,
        other => other,
    }
}

/// The cause, the violated rule, the contradiction, or the syntactic position after the prefix.
fn describe_place(kind: &str, finding: &Finding, vocabulary: &Vocabulary) -> String {
    let descriptions = [
        finding
            .cause
            .map(|departure| format!("{} (undeclared)", departure.name())),
        finding.breaks.clone(),
        finding
            .contradiction
            .map(|contradiction| contradiction.description().to_owned()),
    ];
    descriptions
        .into_iter()
        .flatten()
        .next()
        .unwrap_or_else(|| {
            let is_json = ConstraintKind::from_name(kind).is_some_and(|kind| kind.is_json());
            let state = JsonPrefix::after(&vocabulary.decode(&finding.prefix)).filter(|_| is_json);
            let place = match state {
                Some(state) => state.position_name(),
                None if finding.prefix.is_empty() => "at the start",
                None if is_json => "after unparsable JSON",
                None => "inside the text",
            };
            place.to_owned()
        })
}

fn byte_class(byte: u8) -> &'static str {
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

/// Similar errors with a representative witness.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Cluster {
    pub engine: EngineName,
    pub proof: Proof,
    /// Schemas with such a finding; a lower bound, since findings per entry are limited.
    pub schemas: u64,
    /// Keywords of the witness's constraint, or its kind.
    pub keywords: Vec<String>,
    /// The location, or the violated rule.
    pub place: String,
    /// The shrunk and rechecked finding; absent if it does not reproduce or too many findings were
    /// found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
    /// The first entries with such a finding.
    pub entries: Vec<String>,
}

/// Merges clusters whose shrunk witnesses are similar: same engine, proof, keywords and location.
pub(crate) fn merge_clusters(all: Vec<(Cluster, BTreeSet<usize>)>) -> Vec<Cluster> {
    let mut merged: Vec<(Cluster, BTreeSet<usize>)> = Vec::new();
    for (cluster, schemas) in all {
        let same = |known: &&mut (Cluster, BTreeSet<usize>)| {
            let (known, new) = (&known.0, &cluster);
            known.witness.is_some()
                && (
                    known.engine,
                    &known.keywords,
                    &known.place,
                    proof_family(known.proof),
                ) == (
                    new.engine,
                    &new.keywords,
                    &new.place,
                    proof_family(new.proof),
                )
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
    merged.sort_by_key(|cluster| {
        (
            std::cmp::Reverse(cluster.schemas),
            cluster.engine,
            cluster.proof,
        )
    });
    merged
}

/// Keywords of a schema, formats and keywords of a structural tag, or the constraint's kind.
pub(crate) fn constraint_keywords(constraint: &Constraint) -> Vec<String> {
    if let Some(schema) = constraint.schema() {
        return sobench_reduce::keywords::keywords_in_schema(schema);
    }
    let mut keywords = vec![constraint.kind().to_owned()];
    if let Some(tag) = constraint.structural_tag() {
        keywords.extend(sobench_reduce::tag::formats_and_keywords(tag));
    }
    keywords
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::mask::prove::finding::Origin;

    #[test]
    fn place_description_depends_on_the_constraint_kind() {
        let bytes = Vocabulary::single_bytes();
        let place = |kind: &str, prefix: &str| {
            let tokens: Vec<u32> = prefix.bytes().map(u32::from).collect();
            describe_place(
                kind,
                &Finding::new(Proof::AllowsToken, &tokens, None, Origin::Other),
                &bytes,
            )
        };
        for (kind, prefix, expected) in [
            ("json", "", "at a value"),
            ("json", "{\"a", "in a name"),
            ("json", "}", "after unparsable JSON"),
            ("regex", "", "at the start"),
            ("grammar", "1", "inside the text"),
        ] {
            assert_eq!(place(kind, prefix), expected, "{kind}: {prefix}");
        }
    }

    #[test]
    fn constraint_keywords_are_schema_keywords_or_the_kind() {
        let schema = json!({"type": "object", "properties": {"type": {"enum": [{"x": 1}]}}, "description": "d", "items": [{"format": "date"}]});
        let found = constraint_keywords(&Constraint::JsonSchema(Arc::new(schema)));
        assert_eq!(
            found,
            ["enum", "format:date", "items", "properties", "type:object"]
        );
        assert_eq!(
            constraint_keywords(&Constraint::Regex("a".into())),
            ["regex"]
        );
    }
}
