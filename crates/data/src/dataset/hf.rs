//! The dataset `hf`: texts or chats of a repository on the Hub, or of local files.
//!
//! vLLM takes a fixed list of repositories, each with code of its own; here any is taken that has a
//! column of texts or of chats. Of a chat is asked what comes before the first reply, and the
//! answer may be as long as that reply, where it has one (the rule of vLLM's `ConversationDataset`,
//! with its bounds). Rows are shuffled as CPython shuffles a list; vLLM shuffles through the
//! `datasets` library, in windows of 1000 rows, so that its order is another one.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::file::check_rows;
use super::flags::{HubLengthFlags, OrderFlags, PartFlags, PathFlags, ShortfallFlags};
use super::registry::{Constrained, Inputs, Kind, Spec};
use super::sharegpt::{UNASKED, is_asked};
use super::table::{self, Wanted};
use super::{DatasetArgs, DatasetPlan, Order, OutputLength, Row, Rows, RowsKind, Shortfall};
use crate::tokenizer::Tokenizer;
use sobench_core::case::{Message, Prompt};
use sobench_core::error::{Error, Result};
use sobench_core::input::json::Repeated;
use sobench_notices::notice::DatasetNotice;

/// Names under which columns of chats are looked for, the surest first.
const CHATS: [&str; 5] = ["messages", "conversations", "conversation", "chat", "turns"];
/// The same for texts.
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

/// The flags of `hf`. Other datasets of the Hub read those of a part and of the length.
#[derive(Args, Clone, Debug, Default)]
pub struct HfFlags {
    /// Hub id of the dataset hf; beside a --dataset-path, only its name
    #[arg(long, value_name = "ID")]
    pub hf_name: Option<String>,
    #[command(flatten)]
    pub part: PartFlags,
    #[command(flatten)]
    pub length: HubLengthFlags,
    /// Column of hf whose texts are asked [default: found by its name]
    #[arg(long, value_name = "NAME", conflicts_with = "hf_messages_column")]
    pub hf_text_column: Option<String>,
    /// Column of hf whose chats are asked, up to the first reply [default: found by its name]
    #[arg(long, value_name = "NAME")]
    pub hf_messages_column: Option<String>,
}

/// The options of `hf`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HfPlan {
    /// A local path, or a repository of the Hub, `owner/name`.
    pub dataset_path: Option<String>,
    /// What the dataset is called where it is read from a local path.
    pub hf_name: Option<String>,
    /// A configuration of the repository; `None` where it has one only.
    pub subset: Option<String>,
    /// `None` is `train`.
    pub split: Option<String>,
    /// The column whose texts are asked; `None` looks for one.
    pub text_column: Option<String>,
    /// The column whose chats are asked; `None` looks for one.
    pub messages_column: Option<String>,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl Kind for HfPlan {
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
        ..Spec::new("hf", Constrained::Never)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let own = flags.rows.hf.clone();
        Ok(Self {
            dataset_path: flags.path.path().or_else(|| own.hf_name.clone()),
            hf_name: own.hf_name,
            subset: own.part.hf_subset,
            split: own.part.hf_split,
            text_column: own.hf_text_column,
            messages_column: own.hf_messages_column,
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// Rows in the order in which they are asked, no more than are needed.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        let Some(name) = &self.dataset_path else {
            return Err(Error::usage("the dataset hf has no repository")
                .hint("give --hf-name owner/name, or --dataset-path a file"));
        };
        let wanted = Wanted {
            subset: self.subset.clone(),
            split: self.split.clone(),
            takes_all: false,
        };
        let found = table::find(name, &wanted, inputs.hub)?;
        let (mut read, mut repeated) = (Vec::new(), Repeated::default());
        let mut column = None;
        for (_, file) in &found.files {
            let column = match &column {
                Some(column) => column,
                None => column.insert(choose(self, &table::columns(file)?, name)?),
            };
            for (place, mut members) in table::read(file, &[column], &mut repeated)? {
                let value = members.remove(column).unwrap_or(Value::Null);
                read.push((format!("{place}, {column}"), value));
            }
        }
        check_rows(read.len(), &found.source)?;
        self.order.apply(plan.seed, &mut read);
        let is_fixed = plan.output == OutputLength::OfThePlan;
        let (mut rows, mut left_out) = (Vec::new(), 0);
        for (place, value) in read {
            if rows.len() == plan.num_prompts {
                break;
            }
            match row(self, is_fixed, inputs.tokenizer, &value, place)? {
                Some(row) => rows.push(row),
                None => left_out += 1,
            }
        }
        if rows.is_empty() {
            return Err(Error::usage(format!(
                "no row has a text that is asked ({UNASKED}): {}",
                found.source
            )));
        }
        let mut notices = found.notices;
        notices.extend(DatasetNotice::repeated_members(repeated));
        notices.extend((left_out > 0).then(|| {
            DatasetNotice::RowsLeftOut {
                rows: left_out,
                lengths: UNASKED.to_owned(),
            }
            .into()
        }));
        let source = match &self.hf_name {
            Some(known) if known != name => format!("{} ({known})", found.source),
            _ => found.source,
        };
        Ok(Rows {
            rows,
            kind: RowsKind::Sampled(self.shortfall),
            source,
            converted_from: None,
            notices,
        })
    }

    fn path(&self) -> Option<&str> {
        self.dataset_path.as_deref()
    }
}

/// The column that is asked.
fn choose(own: &HfPlan, columns: &[String], name: &str) -> Result<String> {
    let has = |column: &str| columns.iter().any(|there| there == column);
    let named = own
        .messages_column
        .as_deref()
        .or(own.text_column.as_deref());
    let column = match named {
        Some(named) => Some(named).filter(|named| has(named)),
        None => CHATS.into_iter().chain(TEXTS).find(|column| has(column)),
    };
    column.map(str::to_owned).ok_or_else(|| {
        let what = named.map_or(
            "no column of a name that texts or chats have".to_owned(),
            |named| format!("no column {named}"),
        );
        Error::usage(format!("{what} in {name}: {}", columns.join(", ")))
            .hint("name one with --hf-text-column or --hf-messages-column")
    })
}

/// What is asked of one row; `None` where there is nothing to ask, or too much.
fn row(
    own: &HfPlan,
    is_fixed: bool,
    tokenizer: &Tokenizer,
    value: &Value,
    place: String,
) -> Result<Option<Row>> {
    let wrong = |words: &str| {
        Error::usage(format!("{place}: {words}"))
            .hint("a row is a text, a list of texts, or a chat")
    };
    let is_text = own.messages_column.is_none();
    match value {
        Value::Null => Ok(None),
        Value::String(text) if is_text => {
            let row = (!text.is_empty()).then(|| Row {
                name: place,
                ..Row::free(Prompt::Text(text.as_str().into()))
            });
            Ok(row)
        }
        Value::Array(items) => match items.first() {
            None => Ok(None),
            Some(Value::String(text)) if is_text => Ok(Some(Row {
                name: place,
                ..Row::free(Prompt::Text(text.as_str().into()))
            })),
            Some(Value::Object(_)) if own.text_column.is_none() => {
                let turns = items
                    .iter()
                    .map(|item| item.as_object().and_then(turn))
                    .collect::<Option<Vec<Message>>>();
                let turns = turns.ok_or_else(|| {
                    wrong("a turn has neither role and content nor from and value, as texts")
                })?;
                Ok(chat(is_fixed, tokenizer, turns, place))
            }
            Some(_) => Err(wrong("neither texts nor turns of a chat")),
        },
        _ => Err(wrong("neither a text nor a list")),
    }
}

/// `{role, content}`, or `{from, value}` of ShareGPT's layout.
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
    (content.is_string() || content.is_array()).then(|| Message {
        role: role.to_owned(),
        content: content.clone(),
    })
}

fn chat(
    is_fixed: bool,
    tokenizer: &Tokenizer,
    mut turns: Vec<Message>,
    place: String,
) -> Option<Row> {
    let reply = turns.iter().position(|turn| turn.role == "assistant");
    let reply_tokens = reply
        .and_then(|place| turns[place].content.as_str())
        .map(|text| tokenizer.count_with_added(text));
    turns.truncate(reply.unwrap_or(turns.len()));
    if turns.is_empty() {
        return None;
    }
    let output_len = match reply_tokens.filter(|_| !is_fixed) {
        Some(tokens) => {
            let asked: usize = turns
                .iter()
                .filter_map(|turn| turn.content.as_str())
                .map(|text| tokenizer.count(text))
                .sum();
            if !is_asked(asked + tokenizer.added_tokens(), tokens, false) {
                return None;
            }
            u32::try_from(tokens).ok()
        }
        None => None,
    };
    Some(Row {
        output_len,
        name: place,
        ..Row::free(Prompt::Messages(turns.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source};

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets/hf");

    fn of(file: &str, own: HfPlan) -> DatasetPlan {
        let source = Source::Hf(HfPlan {
            dataset_path: Some(format!("{FIXTURES}/{file}")),
            ..own
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
            other => panic!("a text was expected, and not {}", other.kind()),
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
    fn a_column_of_texts_is_found_or_named() {
        let found = read(&of("texts.jsonl", in_order())).unwrap();
        let expected = [
            "Which river flows through the town that you were born in?",
            "How many sheep are there on the hill behind the house?",
        ];
        assert_eq!(texts(&found), expected);
        assert_eq!(found.notices.len(), 1, "an empty text is left out");
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
        let named = read(&of("texts.jsonl", named)).unwrap();
        assert_eq!(texts(&named), ["a", "b", "c"]);
        assert!(
            named.source.ends_with("texts.jsonl (a/b)"),
            "{}",
            named.source
        );
    }

    #[test]
    fn of_a_chat_is_asked_what_comes_before_the_reply() {
        let chats = read(&of("chats.jsonl", in_order())).unwrap();
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
            panic!("a chat was expected")
        };
        let said: Vec<(&str, &str)> = messages
            .iter()
            .map(|message| {
                (
                    message.role.as_str(),
                    message.content.as_str().unwrap_or(""),
                )
            })
            .collect();
        assert_eq!(
            said,
            [
                ("system", "Answer in one word."),
                ("user", "Which colour has the sky at noon?")
            ]
        );
        let Prompt::Messages(messages) = &chats.rows[1].prompt else {
            panic!("a chat was expected")
        };
        assert_eq!((messages.len(), messages[0].role.as_str()), (1, "user"));
        assert!(
            chats.notices[0]
                .to_string()
                .starts_with("1 rows are left out"),
            "{:?}",
            chats.notices
        );

        let mut fixed = of("chats.jsonl", in_order());
        fixed.output = OutputLength::OfThePlan;
        assert_eq!(
            read(&fixed).unwrap().rows.len(),
            4,
            "nothing is too short with a length of its own"
        );
    }

    #[test]
    fn rows_are_shuffled_by_the_seed() {
        let shuffled = of("chats.jsonl", HfPlan::default());
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
    fn what_is_not_there_is_named() {
        let missing = HfPlan {
            messages_column: Some("chat".to_owned()),
            ..in_order()
        };
        let wrong = HfPlan {
            messages_column: Some("note".to_owned()),
            ..in_order()
        };
        for (plan, words) in [
            (of("texts.jsonl", missing), "no column chat in"),
            (
                of("texts.jsonl", wrong),
                "line 1, note: neither a text nor a list",
            ),
            (
                of("none.jsonl", in_order()),
                "no such dataset file or folder",
            ),
            (plan(DatasetName::Hf), "has no repository"),
        ] {
            let error = read(&plan).unwrap_err();
            assert!(error.what.contains(words), "{error}");
        }
    }
}
