//! The issue for an engine's maintainers about one kind of error. It is Markdown and no
//! [`sobench_render::Document`]: its blocks of code are copied by its readers, and have to be kept
//! to the byte.

use std::fmt::Write as _;

use sobench_core::constraint::Constraint;
use sobench_mask::prove::cluster::Cluster;
use sobench_mask::prove::finding::Proof;
use sobench_mask::prove::witness::Witness;
use sobench_mask::record::MaskRecord;

/// Characters of a file's name.
const MAX_NAME: usize = 80;

/// A file's name for the issue of this number.
pub fn file_name(number: usize, cluster: &Cluster) -> String {
    let words = format!(
        "{:03}-{}-{}-{}",
        number,
        cluster.engine.name(),
        cluster.proof.name(),
        cluster.place
    );
    let plain = |it: char| {
        if it.is_ascii_alphanumeric() || it == '-' {
            it.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    format!(
        "{}.md",
        words
            .chars()
            .map(plain)
            .take(MAX_NAME)
            .collect::<String>()
            .trim_end_matches('-')
    )
}

/// The text; none for a cluster without a witness.
pub fn render(about: &MaskRecord, cluster: &Cluster) -> Option<String> {
    let witness = cluster.witness.as_ref()?;
    let mut text = String::new();
    let keywords = cluster.keywords.join(", ");
    let _ = writeln!(
        text,
        "# {}: {} ({}) [{keywords}]\n",
        witness.found_with,
        witness.finding.proof.says(),
        cluster.place
    );
    let body = match &witness.constraint {
        Constraint::JsonSchema(schema) => serde_json::to_string_pretty(&**schema),
        other => serde_json::to_string_pretty(other),
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
        let _ = writeln!(
            text,
            "and the token {token}, which is {shown:?}: {}.\n",
            witness.why
        );
    } else {
        let _ = writeln!(text, "{}.\n", witness.why);
    }
    if let Some(whole) = &witness.finding.text {
        let _ = writeln!(text, "The whole text:\n\n```json\n{whole}\n```\n");
    }
    let _ = writeln!(text, "{}\n", oracle(witness));
    let settings = about
        .engines
        .iter()
        .filter(|it| it.engine == cluster.engine)
        .flat_map(|it| &it.settings);
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
    let corpora: Vec<&str> = about.corpora.iter().map(|it| it.kind.name()).collect();
    let (schemas, corpora, entry) = (cluster.schemas, corpora.join(", "), &witness.entry);
    let _ = writeln!(
        text,
        "Seen in {schemas} of the schemas of {corpora}, for one in {entry}.\n"
    );
    let line = serde_json::to_string(witness).unwrap_or_default();
    let _ = writeln!(
        text,
        "To check it again, save this line as `witness.jsonl` and run `sobench mask --replay witness.jsonl`:\n\n```json\n{line}\n```"
    );
    Some(text)
}

/// How it is known.
fn oracle(witness: &Witness) -> &'static str {
    match (witness.finding.proof, &witness.constraint) {
        (Proof::AllowsToken, Constraint::JsonSchema(_)) => {
            "No JSON text (RFC 8259) begins with these bytes, whatever the schema."
        }
        (Proof::AllowsToken, _) => "No text of the language begins with these bytes.",
        (Proof::DeadEnd, _) => "Every way on was tried, and none reaches an end.",
        (Proof::Contradicts, _) => {
            "No oracle is needed: the engine was asked the same in two ways."
        }
        (_, Constraint::JsonSchema(_)) => {
            "Two validators, the crates jsonschema and boon, agree on that, with `format` asserted and without."
        }
        _ => "sobench's own evaluator says so, which matches in the dialect of the constraint.",
    }
}
