//! The map of tools and context: every item of a dataset in each cell, with more tools and a longer
//! prompt. The tools and the text that are added depend on the seed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value};

use super::tools::MAX_TOOLS_PER_REQUEST;
use super::{
    Dataset, DatasetArgs, DatasetName, DatasetPlan, Inputs, Source, cases, draw_tools, extract,
    load_with,
};
use crate::tokenizer::Tokenizer;
use sobench_core::case::{Case, Message, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::recorded::RecordedBody;
use sobench_core::tools::{Tool, ToolForm, ToolSet};
use sobench_plan::dataset::Cell;
use sobench_pycompat::random::PythonRandom;

/// Separates the random streams of the filler, the added tools and the order of cells from other
/// draws: the ASCII codes of `cell`, above the 64 bits of the seed.
const STREAM: u128 = 0x6365_6c6c << 64;

/// Maximum number of cells.
const MAX_CELLS: usize = 64;

/// The filler is this many times as long as the longest prompt, and each item has a part of it that
/// starts elsewhere, so that a cache of prefixes does not help.
const FILLER_FACTOR: usize = 4;

/// The flag of longer prompts.
#[derive(Args, Clone, Debug, Default)]
pub struct ContextFlags {
    /// Tokens of the texts of each prompt of tools or requests: other documents come before its
    /// question; several numbers, such as 1k,8k,32k, and several of --tools-per-request make a map:
    /// each item is sent in each cell, with its constraint and without it
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = tokens)]
    pub context_tokens: Vec<u32>,
}

/// A number of tokens, with k for a thousand and K for 1024, as vLLM reads `--max-model-len`.
fn tokens(text: &str) -> std::result::Result<u32, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1000),
        Some(b'K') => (&text[..text.len() - 1], 1024),
        _ => (text, 1),
    };
    let number = digits.parse::<u32>().ok();
    let number = number.and_then(|number| number.checked_mul(factor));
    let number = number.filter(|number| (1..=super::MAX_PROMPT_TOKENS).contains(number));
    number.ok_or_else(|| {
        format!(
            "give a number of tokens from 1 to {}, such as 8000, 8k (8000) or 8K (8192)",
            super::MAX_PROMPT_TOKENS
        )
    })
}

/// The cells that flags span; empty without a map.
///
/// # Errors
/// There are too many.
pub fn cells(flags: &DatasetArgs, name: DatasetName) -> Result<Vec<Cell>> {
    let sorted = |mut numbers: Vec<u64>| {
        numbers.sort_unstable();
        numbers.dedup();
        let numbers: Vec<Option<u64>> = numbers.into_iter().map(Some).collect();
        if numbers.is_empty() {
            vec![None]
        } else {
            numbers
        }
    };
    let tools = &flags.tools.tools_per_request;
    let contexts = &flags.context.context_tokens;
    // The dataset tools itself has requests with any number of tools.
    let is_single = tools.len() <= 1 && (tools.is_empty() || name == DatasetName::Tools);
    if is_single && contexts.is_empty() {
        return Ok(Vec::new());
    }
    let tools = sorted(tools.iter().map(|count| *count as u64).collect());
    let contexts = sorted(contexts.iter().copied().map(u64::from).collect());
    let cell = |tools: Option<u64>, context: Option<u64>| Cell {
        tools: tools.map(|tools| tools as usize),
        context_tokens: context.map(|tokens| tokens as u32),
        turn: None,
    };
    let row = |tools: &Option<u64>| {
        contexts
            .iter()
            .map(|context| cell(*tools, *context))
            .collect()
    };
    let cells: Vec<Cell> = tools
        .iter()
        .flat_map(|tools| -> Vec<Cell> { row(tools) })
        .collect();
    if cells.len() > MAX_CELLS {
        return Err(Error::usage(format!(
            "--tools-per-request and --context-tokens make {} cells, more than {MAX_CELLS}",
            cells.len()
        ))
        .hint("give fewer numbers"));
    }
    Ok(cells)
}

/// Loads the items once for each cell, and sends all cells of an item before the next item.
///
/// # Errors
/// The errors of the dataset; a prompt is longer than a cell, or has more tools.
pub(super) fn load(plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Dataset> {
    let requests = plan.arms.len().max(1);
    let longest = plan
        .cells
        .iter()
        .filter_map(|cell| cell.context_tokens)
        .max();
    let filler = longest.map(|tokens| Filler::new(inputs.tokenizer, tokens as usize, plan.seed));
    let mut parts = Vec::new();
    let mut pool = Vec::new();
    // Cells with the same tools follow each other.
    let mut loaded: Option<(Source, Dataset)> = None;
    for cell in &plan.cells {
        let mut source = plan.source.clone();
        if let Source::Tools(tools) = &mut source {
            tools.tools_per_request = cell.tools;
        }
        let (_, rows) = match loaded.take_if(|(known, _)| *known == source) {
            Some(known) => loaded.insert(known),
            None => {
                let of_cell = DatasetPlan {
                    cells: Vec::new(),
                    ..plan.clone().with_source(source.clone())
                };
                loaded.insert((source, load_with(&of_cell, inputs)?))
            }
        };
        let mut part = rows.clone();
        for (index, case) in part.cases.iter_mut().enumerate() {
            let item = index / requests;
            case.item = u32::try_from(item).ok();
            case.tags.extend(cell.tags());
            if let (Some(count), Prompt::Body(_)) = (cell.tools, &case.prompt) {
                if pool.is_empty() {
                    pool = draw_tools(MAX_TOOLS_PER_REQUEST, plan.seed)?;
                }
                let stream = STREAM | u128::from(plan.seed) | (item as u128) << 96;
                add_tools(case, count, stream, &pool)?;
            }
        }
        if let (Some(filler), Some(tokens)) = (&filler, cell.context_tokens) {
            filler.fill(&mut part.cases, requests, tokens as usize, inputs.tokenizer)?;
        }
        parts.push(part);
    }
    let sizes = parts.iter().map(|part| part.cases.len() / requests);
    let items = sizes.min().unwrap_or(0);
    let places: Vec<usize> = (0..parts.len()).collect();
    let order = cases::orders(&places, items, STREAM | u128::from(plan.seed));
    let mut rest: Vec<_> = parts
        .iter_mut()
        .map(|part| std::mem::take(&mut part.cases).into_iter())
        .collect();
    let mut all = Vec::with_capacity(order.len() * requests);
    for place in order {
        all.extend(rest[place].by_ref().take(requests));
    }
    for (index, case) in all.iter_mut().enumerate() {
        case.id = format!("{}-{index}", plan.source.name());
    }
    let mut notices = Vec::new();
    for notice in parts
        .iter_mut()
        .flat_map(|part| std::mem::take(&mut part.notices))
    {
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
    let first = parts.swap_remove(0);
    Ok(Dataset {
        sha256: cases::sha256(&all),
        cases: all,
        recorded_s: Vec::new(),
        notices,
        ..first
    })
}

/// Text that comes before the questions of prompts.
struct Filler {
    tokens: Vec<u32>,
    seed: u64,
}

impl Filler {
    fn new(tokenizer: &Tokenizer, longest: usize, seed: u64) -> Self {
        let mut tokens = Vec::new();
        for text in extract::texts(STREAM | u128::from(seed)) {
            tokens.extend(tokenizer.encode(&format!("{text}\n\n")));
            if tokens.len() >= FILLER_FACTOR * longest {
                break;
            }
        }
        Self { tokens, seed }
    }

    /// Text of this many tokens. A shorter one of the same item is its beginning.
    fn text(&self, item: usize, count: usize, tokenizer: &Tokenizer) -> String {
        let stream = STREAM | u128::from(self.seed) | (item as u128 + 1) << 96;
        let start = PythonRandom::from_u128(stream).choice(self.tokens.len());
        let tokens: Vec<u32> = self
            .tokens
            .iter()
            .cycle()
            .skip(start)
            .take(count)
            .copied()
            .collect();
        tokenizer.decode(&tokens)
    }

    /// Fills the prompts of cases, which are in the order of items.
    fn fill(
        &self,
        cases: &mut [Case],
        requests: usize,
        target: usize,
        tokenizer: &Tokenizer,
    ) -> Result<()> {
        let mut known: HashMap<usize, Prompt> = HashMap::new();
        for (item, arms) in cases.chunks_mut(requests).enumerate() {
            // Arms that share a prompt still do.
            known.clear();
            for case in arms {
                let address = match &case.prompt {
                    Prompt::Messages(messages) => messages.as_ptr() as usize,
                    Prompt::Body(body) => body.as_ptr() as usize,
                    Prompt::Text(_) | Prompt::Audio(_) | Prompt::Ranking { .. } => 0,
                };
                let filled = match known.get(&address) {
                    Some(filled) => filled.clone(),
                    None => self.filled(case, item, target, tokenizer)?,
                };
                known.insert(address, filled.clone());
                case.prompt = filled;
            }
        }
        Ok(())
    }

    fn filled(
        &self,
        case: &Case,
        item: usize,
        target: usize,
        tokenizer: &Tokenizer,
    ) -> Result<Prompt> {
        let refused = |what: String| Error::usage(format!("{}: {what}", case.id));
        let no_question = || {
            refused("no text of a user that --context-tokens could fill".to_owned())
                .hint("leave the request out, or use --backend openai-chat")
        };
        let body: Map<String, Value>;
        let (member, messages) = match &case.prompt {
            Prompt::Messages(messages) => (
                "messages",
                serde_json::to_value(messages).unwrap_or_default(),
            ),
            Prompt::Body(text) => {
                body = serde_json::from_str(text)
                    .map_err(|error| Error::internal(error.to_string()))?;
                let mut members = ["messages", "input", "prompt"].into_iter();
                let found = members.find_map(|name| Some((name, body.get(name)?.clone())));
                found.ok_or_else(no_question)?
            }
            Prompt::Text(_) | Prompt::Audio(_) | Prompt::Ranking { .. } => {
                return Err(no_question());
            }
        };
        let own = texts(&messages)
            .map(|text| tokenizer.count(text))
            .sum::<usize>();
        let missing = target.checked_sub(own).ok_or_else(|| {
            refused(format!(
                "its prompt has {own} tokens, more than --context-tokens {target}"
            ))
            .hint(format!("give at least {own}, or leave the request out"))
        })?;
        let mut messages = messages;
        let text = question(&mut messages).ok_or_else(no_question)?;
        let filler = self.text(item, missing, tokenizer);
        *text = format!("{}\n\n{text}", filler.trim_end());
        Ok(match &case.prompt {
            Prompt::Body(body) => {
                let members = Map::from_iter([(member.to_owned(), messages)]);
                Prompt::Body(with_members(body, &members)?.into())
            }
            _ => {
                let messages: Vec<Message> = serde_json::from_value(messages)
                    .map_err(|error| Error::internal(error.to_string()))?;
                Prompt::Messages(messages.into())
            }
        })
    }
}

fn with_members(body: &str, members: &Map<String, Value>) -> Result<String> {
    let parsed = RecordedBody::parse(body).map_err(|error| Error::internal(error.to_string()))?;
    Ok(parsed.with_members(members))
}

/// The texts of a prompt: of a string, or of the contents of messages.
fn texts(prompt: &Value) -> impl Iterator<Item = &str> {
    let messages = prompt.as_array().into_iter().flatten();
    let contents = messages.map(|message| &message["content"]);
    let parts = contents
        .clone()
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(|part| part["text"].as_str());
    prompt
        .as_str()
        .into_iter()
        .chain(contents.filter_map(Value::as_str))
        .chain(parts)
}

/// The text of the first message of a user.
fn question(prompt: &mut Value) -> Option<&mut String> {
    let content = match prompt {
        Value::String(_) => prompt,
        _ => {
            let mut messages = prompt.as_array_mut()?.iter_mut();
            messages
                .find(|message| message["role"] == "user")?
                .get_mut("content")?
        }
    };
    match content {
        Value::String(text) => Some(text),
        Value::Array(parts) => parts
            .iter_mut()
            .find_map(|part| match part.get_mut("text")? {
                Value::String(text) => Some(text),
                _ => None,
            }),
        _ => None,
    }
}

/// Adds other tools to a recorded body, and puts all of them in a random order. A body without tools
/// stays as it is.
fn add_tools(case: &mut Case, count: usize, stream: u128, pool: &[Tool]) -> Result<()> {
    let Prompt::Body(body) = &case.prompt else {
        return Ok(());
    };
    let body: &str = body;
    let Some(set) = case.constraint.as_deref().and_then(Constraint::tools) else {
        return Ok(());
    };
    let value: Value =
        serde_json::from_str(body).map_err(|error| Error::internal(error.to_string()))?;
    let own = value["tools"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let missing = count.checked_sub(own.len()).ok_or_else(|| {
        Error::usage(format!(
            "{}: it has {} tools, more than --tools-per-request {count}",
            case.id,
            own.len()
        ))
        .hint(format!(
            "give at least {}, or leave the request out",
            own.len()
        ))
    })?;
    let names: HashSet<&str> = set.tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut random = PythonRandom::from_u128(stream);
    let others = random.sample(pool.len(), (count + own.len()).min(pool.len()));
    let others: Vec<Tool> = others
        .into_iter()
        .map(|at| &pool[at])
        .filter(|tool| !names.contains(tool.name.as_str()))
        .take(missing)
        .cloned()
        .collect();
    let form = match own.first() {
        Some(tool) if tool.get("input_schema").is_some() => ToolForm::Messages,
        Some(tool) if tool.get("name").is_some() => ToolForm::Responses,
        _ => ToolForm::Chat,
    };
    let of_others = ToolSet {
        tools: others.clone(),
        ..set.clone()
    }
    .to_members(form);
    let values = of_others["tools"].as_array().into_iter().flatten().cloned();
    let mut tools: Vec<(Value, Tool)> = own
        .iter()
        .cloned()
        .zip(set.tools.clone())
        .chain(values.zip(others))
        .collect();
    random.shuffle(&mut tools);
    let (values, tools): (Vec<Value>, Vec<Tool>) = tools.into_iter().unzip();
    let text = with_members(body, &Map::from_iter([("tools".to_owned(), values.into())]))?;
    let set = ToolSet {
        tools,
        ..set.clone()
    };
    case.prompt = Prompt::Body(text.into());
    case.constraint = Some(Arc::new(Constraint::Tools(Arc::new(set))));
    Ok(())
}
