//! Issue texts for engine maintainers, one per kind of error. They are Markdown, not a
//! [`sobench_render::Document`], since their code blocks must be copied byte for byte.

use std::fmt::Write as _;

use crate::mask::prove::cluster::Cluster;
use crate::mask::prove::finding::Proof;
use crate::mask::prove::witness::Witness;
use crate::mask::record::MaskRecord;
use sobench_core::constraint::ConstraintKind;

/// Maximum length of a file name.
const MAX_NAME: usize = 80;

/// The file name of the issue with this number.
pub fn file_name(number: usize, cluster: &Cluster) -> String {
    let message = format!(
        "{:03}-{}-{}-{}",
        number,
        cluster.engine.name(),
        cluster.proof.name(),
        cluster.place
    );
    format!(
        "{}.md",
        message
            .chars()
            .map(|character: char| {
                if character.is_ascii_alphanumeric() || character == '-' {
                    character.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .take(MAX_NAME)
            .collect::<String>()
            .trim_end_matches('-')
    )
}

/// The issue text; `None` for a cluster without a witness.
pub fn render(record: &MaskRecord, cluster: &Cluster) -> Option<String> {
    let witness = cluster.witness.as_ref()?;
    let mut text = String::new();
    let keywords = cluster.keywords.join(", ");
    let _ = writeln!(
        text,
        "# {}: {} ({}) [{keywords}]\n",
        witness.found_with,
        witness.finding.proof.description(),
        cluster.place
    );
    let constraint = &witness.constraint;
    let body = match constraint.schema() {
        Some(schema) => serde_json::to_string_pretty(schema),
        None => serde_json::to_string_pretty(constraint),
    };
    let _ = writeln!(
        text,
        "Constraint:\n\n```json\n{}\n```\n",
        body.unwrap_or_default()
    );
    let (tokens, tokenizer, prefix) = (
        &witness.finding.prefix,
        &witness.tokenizer,
        &witness.prefix_text,
    );
    let _ = writeln!(
        text,
        "After this text (tokens {tokens:?} of {tokenizer}):\n\n```\n{prefix}\n```\n"
    );
    if let (Some(token), Some(shown)) = (witness.finding.token, &witness.token_text) {
        let tokens = match witness.finding.proof {
            Proof::Rollback => format!("tokens {:?}", witness.finding.rolled_back()),
            _ => format!("token {token}"),
        };
        let _ = writeln!(text, "and the {tokens} ({shown:?}): {}.\n", witness.why);
    } else {
        let _ = writeln!(text, "{}.\n", witness.why);
    }
    if let Some(whole) = &witness.finding.text {
        let _ = writeln!(text, "The complete text:\n\n```json\n{whole}\n```\n");
    }
    let _ = writeln!(text, "{}\n", oracle(witness));
    let settings = record
        .engines
        .iter()
        .filter(|measured| measured.engine == cluster.engine)
        .flat_map(|measured| &measured.settings);
    let settings: Vec<String> = settings
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let (version, settings, own_version) = (
        &witness.found_with,
        settings.join(", "),
        env!("CARGO_PKG_VERSION"),
    );
    let _ = writeln!(
        text,
        "Version: {version}; settings: {settings}; found by sobench {own_version}."
    );
    let corpora: Vec<&str> = record
        .corpora
        .iter()
        .map(|corpus| corpus.kind.name())
        .collect();
    let (schemas, corpora, entry) = (cluster.schemas, corpora.join(", "), &witness.entry);
    let _ = writeln!(
        text,
        "Found in {schemas} schemas of {corpora}, for example in {entry}.\n"
    );
    let line = serde_json::to_string(witness).unwrap_or_default();
    let _ = writeln!(
        text,
        "To reproduce it, save this line as `witness.jsonl` and run `sobench-tools mask --replay witness.jsonl`:\n\n```json\n{line}\n```"
    );
    Some(text)
}

/// The evidence for the error.
fn oracle(witness: &Witness) -> &'static str {
    let kind = ConstraintKind::from_constraint(&witness.constraint);
    match (witness.finding.proof, kind) {
        (Proof::AllowsToken, ConstraintKind::JsonSchema) => {
            "No JSON text (RFC 8259) starts with these bytes, under any schema."
        }
        (Proof::AllowsToken, ConstraintKind::StructuralTag) => {
            "No text of the tag starts with these bytes, with any JSON text (RFC 8259) for its schemas."
        }
        (Proof::AllowsToken, _) => "No text of the language starts with these bytes.",
        (Proof::DeadEnd, _) => "All continuations were tried, and none reaches an end.",
        (Proof::Contradicts, _) => {
            "No oracle is needed: the engine gave two different results for the same request."
        }
        (Proof::Rollback, _) => {
            "No oracle is needed: the same matcher is compared before the tokens are committed and after they are rolled back."
        }
        (_, ConstraintKind::JsonSchema) => {
            "Two validators, the crates jsonschema and boon, agree on this, with and without asserted `format`."
        }
        (_, ConstraintKind::StructuralTag) => {
            "Two readers of the tag agree on this: the evaluator of sobench, and one that checks JSON with the crate boon."
        }
        _ => "The evaluator of sobench decides this, in the dialect of the constraint.",
    }
}
