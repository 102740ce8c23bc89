//! The dataset `hf`: texts or chats of a repository on the Hub, or of local files.
//!
//! vLLM supports a fixed list of repositories, each with its own code. Here any repository with a
//! column of texts or chats works. Of a chat, the turns before the first reply are sent, and the
//! answer may be as long as that reply, if there is one (the rule and bounds of vLLM's
//! `ConversationDataset`). Rows are shuffled as CPython shuffles a list. vLLM shuffles through the
//! `datasets` library, in windows of 1000 rows, so that its order differs.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::file::check_rows;
use super::flags::{HubLengthFlags, OrderFlags, PartFlags, PathFlags, ShortfallFlags};
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::sharegpt::{SKIPPED_LENGTHS, has_valid_length};
use super::table::{self, Selection};
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall};
use crate::tokenizer::Tokenizer;
use sobench_core::case::{Message, Prompt};
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;
use sobench_notices::notice::DatasetNotice;
use sobench_plan::dataset::OutputLength;

/// Names of columns of chats, in order of preference.
const CHATS: [&str; 5] = ["messages", "conversations", "conversation", "chat", "turns"];
/// The column of the tools of a chat, which are not sent.
const TOOLS: &str = "tools";
/// Names of columns of texts, in order of preference.
const TEXTS: [&str; 8] = [
    "prompt",
    "question",
    "instruction",
    "problem",
    "query",
    "input",
    "text",
    "content",
];

/// The flags of `hf`. Other datasets of the Hub also read those for a part and for the answer
/// length.
#[derive(Args, Clone, Debug, Default)]
pub struct HfFlags {
    /// Hub id of the dataset hf; with --dataset-path, only its name in results
    #[arg(long, value_name = "ID")]
    pub hf_name: Option<String>,
    #[command(flatten)]
    pub part: PartFlags,
    #[command(flatten)]
    pub length: HubLengthFlags,
    /// Text column of hf that holds the prompts [default: found by its name]
    #[arg(long, value_name = "NAME", conflicts_with = "hf_messages_column")]
    pub hf_text_column: Option<String>,
    /// Chat column of hf that holds the prompts, up to the first reply [default: found by its name]
    #[arg(long, value_name = "NAME")]
    pub hf_messages_column: Option<String>,
}

/// The options of `hf`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HfPlan {
    /// A local path, or a repository of the Hub, `owner/name`.
    pub dataset_path: Option<String>,
    /// Name in results of a dataset that is read from a local path.
    pub hf_name: Option<String>,
    /// A configuration of the repository. `None` requires that there is only one.
    pub subset: Option<String>,
    /// `None` means `train`.
    pub split: Option<String>,
    /// The column of texts. `None` selects it by name.
    pub text_column: Option<String>,
    /// The column of chats. `None` selects it by name.
    pub messages_column: Option<String>,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl DatasetKind for HfPlan {
    const SPEC: Spec = Spec {
        flags: &[
            PathFlags::augment_args,
            OrderFlags::augment_args,
            ShortfallFlags::augment_args,
            HfFlags::augment_args,
        ],
        replaces_row_lengths: true,
        is_templated: true,
        own_output_len: |flags| flags.rows.hf.length.output_len(),
        ..Spec::new("hf", ConstraintScope::Unconstrained)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let options = flags.rows.hf.clone();
        Ok(Self {
            dataset_path: flags.path.path().or_else(|| options.hf_name.clone()),
            hf_name: options.hf_name,
            subset: options.part.hf_subset,
            split: options.part.hf_split,
            text_column: options.hf_text_column,
            messages_column: options.hf_messages_column,
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// The first valid rows, up to the number of prompts.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let Some(name) = &self.dataset_path else {
            return Err(Error::usage("the dataset hf needs a repository")
                .hint("give --hf-name owner/name, or --dataset-path a file"));
        };
        let selection = Selection {
            subset: self.subset.clone(),
            split: self.split.clone(),
            allows_several_subsets: false,
        };
        let found = table::find(name, &selection, inputs.hub)?;
        let (mut values, mut repeated) = (Vec::new(), DuplicateKeys::default());
        let (mut column, mut has_tools) = (None, false);
        for (_, file) in &found.files {
            let column = match &column {
                Some(column) => column,
                None => {
                    let columns = table::columns(file)?;
                    has_tools = columns.iter().any(|column| column == TOOLS);
                    column.insert(choose(self, &columns, name)?)
                }
            };
            for row in table::read(file, &[column], &mut repeated, inputs.progress)? {
                let (location, mut members) = row?;
                let value = members.remove(column).unwrap_or(Value::Null);
                values.push((format!("{location}, {column}"), value));
            }
        }
        check_rows(values.len(), &found.source)?;
        self.order.apply(plan.seed, &mut values);
        let is_fixed = plan.output == OutputLength::Fixed;
        let (mut rows, mut skipped, mut cut) = (Vec::new(), 0, 0);
        for (location, value) in values {
            if rows.len() == plan.num_prompts {
                break;
            }
            match row(self, is_fixed, inputs.tokenizer, &value, location)? {
                Some(row) => {
                    cut += usize::from(has_later_turns(&value));
                    rows.push(row);
                }
                None => skipped += 1,
            }
        }
        if rows.is_empty() {
            return Err(Error::usage(format!(
                "every row is empty or skipped ({SKIPPED_LENGTHS}): {}",
                found.source
            )));
        }
        let mut notices = found.notices;
        notices.extend(DatasetNotice::repeated_members(repeated));
        notices.extend((skipped > 0).then(|| {
            DatasetNotice::RowsLeftOut {
                rows: skipped,
                lengths: SKIPPED_LENGTHS.to_owned(),
            }
            .into()
        }));
        let later_turns = (cut > 0).then(|| format!("turns after the first reply, in {cut} rows"));
        let tools = has_tools.then(|| format!("the column {TOOLS}"));
        let not_sent = later_turns.into_iter().chain(tools);
        notices.extend(not_sent.map(|what| DatasetNotice::PartsNotSent { what }.into()));
        let source = match &self.hf_name {
            Some(known) if known != name => format!("{} ({known})", found.source),
            _ => found.source,
        };
        Ok(Rows {
            notices,
            ..Rows::new(rows, RowsKind::Sampled(self.shortfall), source)
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// Selects the column of the prompts.
fn choose(plan: &HfPlan, columns: &[String], name: &str) -> Result<String> {
    let exists = |column: &str| columns.iter().any(|existing| existing == column);
    let named = plan
        .messages_column
        .as_deref()
        .or(plan.text_column.as_deref());
    let column = match named {
        Some(named) => Some(named).filter(|named| exists(named)),
        None => CHATS.into_iter().chain(TEXTS).find(|column| exists(column)),
    };
    column.map(str::to_owned).ok_or_else(|| {
        let message = named.map_or(
            "no column with a known name of texts or chats".to_owned(),
            |named| format!("no column {named}"),
        );
        Error::usage(format!("{message} in {name}: {}", columns.join(", ")))
            .hint("select one with --hf-text-column or --hf-messages-column")
    })
}

/// The row for a value. `None` if the value is empty or too long.
fn row(
    plan: &HfPlan,
    is_fixed: bool,
    tokenizer: &Tokenizer,
    value: &Value,
    location: String,
) -> Result<Option<Row>> {
    let wrong = |message: &str| {
        Error::usage(format!("{location}: {message}"))
            .hint("a row is a text, a list of texts, or a chat")
    };
    let is_text = plan.messages_column.is_none();
    match value {
        Value::Null => Ok(None),
        Value::String(text) if is_text => {
            let row = (!text.is_empty()).then(|| Row {
                name: location,
                ..Row::unconstrained(Prompt::Text(text.as_str().into()))
            });
            Ok(row)
        }
        Value::Array(items) => match items.first() {
            None => Ok(None),
            Some(Value::String(text)) if is_text => Ok(Some(Row {
                name: location,
                ..Row::unconstrained(Prompt::Text(text.as_str().into()))
            })),
            Some(Value::Object(_)) if plan.text_column.is_none() => {
                let turns = items
                    .iter()
                    .map(|item| item.as_object().and_then(turn))
                    .collect::<Option<Vec<Message>>>();
                let turns = turns.ok_or_else(|| {
                    wrong("a turn needs role and content, or from and value, as strings")
                })?;
                Ok(chat(is_fixed, tokenizer, turns, location))
            }
            Some(_) => Err(wrong("not a list of texts or of turns")),
        },
        _ => Err(wrong("not a text or a list")),
    }
}

/// Whether a chat goes on after its first reply.
fn has_later_turns(value: &Value) -> bool {
    let turns = value.as_array().map_or(&[][..], Vec::as_slice);
    let is_reply = |item: &Value| {
        let turn = item.as_object().and_then(turn);
        turn.is_some_and(|turn| turn.role == "assistant")
    };
    turns
        .iter()
        .position(is_reply)
        .is_some_and(|reply| reply + 1 < turns.len())
}

/// Reads `{role, content}`, or `{from, value}` as in ShareGPT.
fn turn(members: &Map<String, Value>) -> Option<Message> {
    let role = members
        .get("role")
        .or_else(|| members.get("from"))?
        .as_str()?;
    let content = members.get("content").or_else(|| members.get("value"))?;
    let role = match role {
        "human" => "user",
        "gpt" | "bot" | "model" => "assistant",
        other => other,
    };
    (content.is_string() || content.is_array()).then(|| Message::new(role, content.clone()))
}

fn chat(
    is_fixed: bool,
    tokenizer: &Tokenizer,
    mut turns: Vec<Message>,
    location: String,
) -> Option<Row> {
    let reply = turns.iter().position(|turn| turn.role == "assistant");
    let reply_tokens = reply
        .and_then(|index| turns[index].content.as_str())
        .map(|text| tokenizer.count_with_added(text));
    turns.truncate(reply.unwrap_or(turns.len()));
    if turns.is_empty() {
        return None;
    }
    let output_len = match reply_tokens.filter(|_| !is_fixed) {
        Some(tokens) => {
            let prompt_tokens: usize = turns
                .iter()
                .filter_map(|turn| turn.content.as_str())
                .map(|text| tokenizer.count(text))
                .sum();
            if !has_valid_length(prompt_tokens + tokenizer.added_tokens(), tokens, false) {
                return None;
            }
            u32::try_from(tokens).ok()
        }
        None => None,
    };
    Some(Row {
        output_len,
        name: location,
        ..Row::unconstrained(Prompt::Messages(turns.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source};

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets/hf");

    fn plan_with(file: &str, options: HfPlan) -> DatasetPlan {
        let source = Source::Hf(HfPlan {
            dataset_path: Some(format!("{FIXTURES}/{file}")),
            ..options
        });
        DatasetPlan {
            source,
            ..plan(DatasetName::Hf)
        }
    }

    fn in_order() -> HfPlan {
        HfPlan {
            order: Order::AsStored,
            ..HfPlan::default()
        }
    }

    fn read(plan: &DatasetPlan) -> Result<Rows> {
        rows(plan, &tokenizer())
    }

    fn texts(rows: &Rows) -> Vec<&str> {
        let text = |row: &'_ Row| match &row.prompt {
            Prompt::Text(text) => text.len(),
            other => panic!("expected a text, not {}", other.kind()),
        };
        assert!(rows.rows.iter().all(|row| text(row) > 0));
        rows.rows
            .iter()
            .filter_map(|row| {
                if let Prompt::Text(text) = &row.prompt {
                    Some(&**text)
                } else {
                    None
                }
            })
            .collect()
    }

    #[test]
    fn the_text_column_is_found_or_given() {
        let found = read(&plan_with("texts.jsonl", in_order())).unwrap();
        let expected = [
            "Which river flows through the town that you were born in?",
            "How many sheep are there on the hill behind the house?",
        ];
        assert_eq!(texts(&found), expected);
        assert_eq!(found.notices.len(), 1, "an empty text is skipped");
        assert!(
            found.rows[1]
                .name
                .ends_with("texts.jsonl, line 3, question"),
            "{}",
            found.rows[1].name
        );
        let named = HfPlan {
            text_column: Some("note".to_owned()),
            hf_name: Some("a/b".to_owned()),
            ..in_order()
        };
        let named = read(&plan_with("texts.jsonl", named)).unwrap();
        assert_eq!(texts(&named), ["a", "b", "c"]);
        assert!(
            named.source.ends_with("texts.jsonl (a/b)"),
            "{}",
            named.source
        );
    }

    #[test]
    fn chats_end_before_the_first_reply() {
        let chats = read(&plan_with("chats.jsonl", in_order())).unwrap();
        let tokens = |text: &str| u32::try_from(tokenizer().count(text)).ok();
        let lengths: Vec<Option<u32>> = chats.rows.iter().map(|row| row.output_len).collect();
        assert_eq!(
            lengths,
            [
                tokens("Blue, if there are no clouds."),
                tokens("It comes and it goes."),
                None
            ]
        );
        let Prompt::Messages(messages) = &chats.rows[0].prompt else {
            panic!("expected a chat")
        };
        let turns: Vec<(&str, &str)> = messages
            .iter()
            .map(|message| {
                (
                    message.role.as_str(),
                    message.content.as_str().unwrap_or(""),
                )
            })
            .collect();
        assert_eq!(
            turns,
            [
                ("system", "Answer in one word."),
                ("user", "Which colour has the sky at noon?")
            ]
        );
        let Prompt::Messages(messages) = &chats.rows[1].prompt else {
            panic!("expected a chat")
        };
        assert_eq!((messages.len(), messages[0].role.as_str()), (1, "user"));
        assert!(
            chats.notices[0]
                .to_string()
                .starts_with("1 rows are skipped"),
            "{:?}",
            chats.notices
        );

        let mut fixed = plan_with("chats.jsonl", in_order());
        fixed.output = OutputLength::Fixed;
        assert_eq!(
            read(&fixed).unwrap().rows.len(),
            4,
            "no reply is too short with a fixed length"
        );
    }

    #[test]
    fn rows_are_shuffled_by_the_seed() {
        let shuffled = plan_with("chats.jsonl", HfPlan::default());
        let order = |seed: u64| -> Vec<String> {
            let rows = read(&DatasetPlan {
                seed,
                ..shuffled.clone()
            })
            .unwrap()
            .rows;
            rows.into_iter().map(|row| row.name).collect()
        };
        assert_eq!(order(1), order(1));
        assert!((0..8).any(|seed| order(seed) != order(0)));
    }

    #[test]
    fn errors_name_the_missing_column_or_file() {
        let missing = HfPlan {
            messages_column: Some("chat".to_owned()),
            ..in_order()
        };
        let wrong = HfPlan {
            messages_column: Some("note".to_owned()),
            ..in_order()
        };
        for (plan, message) in [
            (plan_with("texts.jsonl", missing), "no column chat in"),
            (
                plan_with("texts.jsonl", wrong),
                "line 1, note: not a text or a list",
            ),
            (
                plan_with("none.jsonl", in_order()),
                "no such dataset file or folder",
            ),
            (plan(DatasetName::Hf), "needs a repository"),
        ] {
            let error = read(&plan).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }
}
