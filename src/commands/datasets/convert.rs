//! `sobench datasets convert`: writes recorded requests of any form as OpenAI's batch input.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use crate::commands::flags::paths::{InputNames, InputPath, OutputPath};
use crate::commands::flags::rendering::ForceArgs;
use crate::commands::flags::values::{Described, described};
use crate::terminal::InputProgress;
use sobench_core::error::{Error, Result};
use sobench_core::output_files::{self, cannot_write_report, refuse_foreign};
use sobench_data::dataset::{self, MAX_DATASET_BYTES, TracePrompts};
use sobench_data::recorded::{self, Content, Found, PROMPTS};
use sobench_data::redact::{Names, Redaction};
use sobench_data::tokenizer::Tokenizer;
use sobench_render::{Document, Table, text};

/// The flags of `sobench datasets convert`.
#[derive(Args, Clone, Debug)]
pub struct ConvertArgs {
    /// File of recorded requests, in any form of --dataset requests
    #[arg(value_name = "IN")]
    pub input: InputPath,
    /// File to write: OpenAI's batch input, with a timestamp where it is known
    #[arg(value_name = "OUT")]
    pub output: OutputPath,
    /// Replace texts by others of the same length, and names of properties and tools as this says
    /// [default: keep-names]
    #[arg(long, value_name = "NAMES", num_args = 0..=1, require_equals = true,
          default_missing_value = "keep-names", value_parser = described(&REDACTIONS))]
    pub redact: Option<Names>,
    /// Tokenizer, with which replaced texts have the same number of tokens: a folder, a
    /// tokenizer.json or a Hub id [default: the same words and characters]
    #[arg(long, value_name = "TOKENIZER")]
    pub tokenizer: Option<InputNames>,
    #[command(flatten)]
    pub force: ForceArgs,
}

const REDACTIONS: [Described<Names>; 2] = [
    Described(Names::Keep, "keep-names", "Names are kept"),
    Described(
        Names::Hash,
        "hash-names",
        "Names become hashes, which differ from run to run",
    ),
];

/// Counts by what is counted.
type Counts = BTreeMap<String, usize>;

/// Converts the file. Returns the counts.
///
/// # Errors
/// A file cannot be read or written, or a value is not a recorded request.
pub(super) fn convert(flags: &ConvertArgs) -> Result<String> {
    let (input, output) = (&*flags.input, &*flags.output);
    let real = |path: &std::path::Path| std::fs::canonicalize(path).ok();
    if real(output).is_some_and(|path| Some(path) == real(input)) {
        let what = format!("OUT would overwrite an input file: {}", output.display());
        return Err(Error::usage(what).hint("give OUT another path"));
    }
    if !flags.force.force {
        refuse_foreign(output, "OUT")?;
    }
    let given = flags.tokenizer.as_ref().map(|name| Tokenizer::open(name));
    let given = given.transpose()?;
    let embedded = Tokenizer::embedded();
    let mut prompts = TracePrompts::new(given.as_ref().unwrap_or(&embedded), 0);
    let redaction = flags
        .redact
        .map(|names| Redaction::new(given.as_ref(), names));
    let redaction = redaction.transpose()?;
    let mut names = dataset::Names::default();
    let (mut forms, mut unjudged, mut skipped) = (Counts::new(), Counts::new(), Counts::new());
    output_files::write(output, |out| {
        recorded::read(
            input,
            MAX_DATASET_BYTES,
            &InputProgress::of_files(),
            &mut |place, form, found| {
                let request = match found {
                    Found::Request(request) => request,
                    Found::Skipped(reason) => {
                        *skipped.entry(reason.to_owned()).or_default() += 1;
                        return Ok(());
                    }
                };
                names.add(&place, &request)?;
                let mut body = match &request.content {
                    Content::Body(text) => text.replace(['\n', '\r'], " "),
                    Content::Lengths(lengths) => {
                        let prompt = prompts.text(lengths)?;
                        json!({"model": "", "prompt": prompt, "max_tokens": lengths.output.max(1), "stream": true}).to_string()
                    }
                };
                let mut value = dataset::body(&body, &place)?;
                if let Some(redaction) = &redaction {
                    if let Err(what) = redaction.body(&mut value) {
                        *skipped.entry(format!("not redacted: {what}")).or_default() += 1;
                        return Ok(());
                    }
                    body = value.to_string();
                }
                *forms.entry(form.to_owned()).or_default() += 1;
                let reason = request.unjudged.map(str::to_owned);
                if let Some(reason) = reason.or_else(|| dataset::unjudged(&value)) {
                    *unjudged.entry(reason).or_default() += 1;
                }
                let number = forms.values().sum::<usize>();
                let id = request.id.filter(|_| redaction.is_none());
                let id = Value::from(id.unwrap_or_else(|| format!("request-{number}")));
                let url = Value::from(request.url.unwrap_or_else(|| endpoint(&value).to_owned()));
                let time = request
                    .at
                    .map_or(String::new(), |at| format!(r#","timestamp":{at}"#));
                // The order of the members shows whose file it is.
                writeln!(
                    out,
                    r#"{{"method":"POST","custom_id":{id},"url":{url}{time},"body":{body}}}"#
                )
                .map_err(|error| cannot_write_report(output, &error))
            },
        )
    })?;
    let mut document = Document::new("sobench: recorded requests");
    for (title, head, counts) in [
        ("Written", "form", forms),
        ("Cannot be judged", "reason", unjudged),
        ("Not written", "reason", skipped),
    ] {
        let mut table = Table::new([head, "requests"], 1);
        for (what, count) in counts {
            table.row([what, count.to_string()]);
        }
        document.titled_table(title, table.non_empty());
    }
    Ok(text::render(&document))
}

/// The path of the endpoint that takes a body.
fn endpoint(body: &Value) -> &'static str {
    let is_anthropic =
        body.get("system").is_some() || body.pointer("/tools/0/input_schema").is_some();
    if is_anthropic && body.get("messages").is_some() {
        return "/v1/messages";
    }
    let mut known = PROMPTS.iter().filter(|(name, _)| body.get(name).is_some());
    known.next().map_or("", |(_, path)| path)
}
