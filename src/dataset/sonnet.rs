//! The dataset `sonnet`: lines of a poem behind its first lines, which all prompts share. Knows no server.
//!
//! By the rules of `SonnetDataset` of vLLM 0.9 (it was taken out in 0.32): as many lines as make the wanted length by the mean
//! length of a line, those after the shared ones by `random.seed(seed)` and `random.choices`, and again where the prompt is too long
//! with its chat template.

use std::path::Path;

use super::exact::check_amount;
use super::file::{check_rows, read_document};
use super::{DatasetPlan, PromptForm, Row, Rows, RowsKind};
use crate::case::{Message, Prompt};
use crate::error::{Error, Result};
use crate::notice::DatasetNotice;
use crate::random::PythonRandom;
use crate::tokenizer::Tokenizer;

/// What every prompt begins with.
const TASK: &str = "Pick as many lines as you can from these poem lines:\n";
/// How often lines are drawn for one prompt before the length is called impossible.
const MAX_DRAWS: usize = 1000;

/// A row a prompt.
///
/// # Errors
/// There is no file, it has no line, or the lengths leave no room for any.
pub(super) fn rows(plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Rows> {
    let path = plan.file("give --dataset-path a text, a line of a poem each")?;
    // As Python reads a text.
    let text = read_document(Path::new(path))?.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    check_rows(lines.len(), path)?;
    let lengths = plan.drawing.lengths;
    check_amount(u64::from(lengths.input), plan.num_prompts)?;

    let tokens: usize = lines.iter().map(|line| tokenizer.count_with_added(line)).sum();
    let tokens_per_line = tokens as f64 / lines.len() as f64;
    // Else a prompt could take any number of lines.
    if tokens < lines.len() {
        return Err(Error::usage(format!("the tokenizer makes less than a token of a line of {path}: {}", tokenizer.id()))
            .hint("give another --tokenizer, or a text with more on its lines"));
    }
    let (base, templated) = formatted(tokenizer, TASK)?;
    let base = tokenizer.count_with_added(&base);
    let input = lengths.input as usize;
    if input <= base {
        return Err(Error::usage(format!("the prompt without any line has {base} tokens, and the whole may have only: {input}"))
            .hint("raise --sonnet-input-len"));
    }
    let lines_within = |length: usize| ((length as f64 - base as f64) / tokens_per_line).round_ties_even().max(0.0) as usize;
    let shared = lines_within(lengths.prefix as usize);
    let own = lines_within(input).saturating_sub(shared);
    let prefix = lines[..shared.min(lines.len())].concat();

    let mut random = PythonRandom::new(plan.seed);
    let mut rows = Vec::with_capacity(plan.num_prompts);
    for index in 0..plan.num_prompts {
        let fitting = (0..MAX_DRAWS).find_map(|_| {
            let drawn: Vec<&str> = random.choices(lines.len(), own).into_iter().map(|place| lines[place]).collect();
            let prompt = format!("{TASK}{prefix}{}", drawn.concat());
            let whole = formatted(tokenizer, &prompt).map(|(whole, _)| whole);
            whole.map(|whole| (tokenizer.count_with_added(&whole) <= input).then_some((prompt, whole))).transpose()
        });
        let (prompt, whole) = fitting.transpose()?.ok_or_else(|| {
            Error::usage(format!("{MAX_DRAWS} draws made no prompt of at most so many tokens: {input}"))
                .hint("lower --sonnet-prefix-len, or raise --sonnet-input-len")
        })?;
        // Where the server has the template, a prompt must not be put into it twice.
        let asked = if plan.prompt_form == PromptForm::Messages { prompt } else { whole };
        rows.push(Row { name: format!("prompt {index}"), ..Row::free(Prompt::Text(asked.into())) });
    }
    let is_untemplated = !templated && plan.prompt_form != PromptForm::Messages;
    let notices = is_untemplated.then(|| DatasetNotice::NoChatTemplate.into()).into_iter().collect();
    Ok(Rows { rows, kind: RowsKind::Whole, source: path.clone(), converted_from: None, notices })
}

/// The text as a user's message in the tokenizer's chat template, and whether it has one.
fn formatted(tokenizer: &Tokenizer, text: &str) -> Result<(String, bool)> {
    if tokenizer.chat_template().is_none() {
        return Ok((text.to_owned(), false));
    }
    let message = Message { role: "user".to_owned(), content: text.into() };
    Ok((tokenizer.apply_chat_template(&[message], true)?, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden::check;
    use crate::dataset::tests::{plan, tokenizer};
    use crate::dataset::{DatasetName, Drawing, Lengths, load};

    const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/datasets/sonnet.txt");

    fn of(seed: u64, input: u32, prefix: u32) -> DatasetPlan {
        let drawing = Drawing { lengths: Lengths { input, prefix, ..Lengths::default() }, ..Drawing::default() };
        let dataset_path = Some(FIXTURE.to_owned());
        DatasetPlan { seed, num_prompts: 5, output_len: 9, drawing, dataset_path, ..plan(DatasetName::Sonnet) }
    }

    #[test]
    fn the_same_seed_picks_the_lines_that_vllm_picked() {
        check(&of(0, 300, 120), "sonnet", "plain");
        check(&of(11, 200, 40), "sonnet", "no_prefix");
    }

    #[test]
    fn chats_and_tokenizers_without_a_template_get_the_bare_text() {
        let chat = load(&DatasetPlan { prompt_form: PromptForm::Messages, ..of(0, 300, 120) }, &tokenizer()).unwrap();
        let bare = load(&of(0, 300, 120), &Tokenizer::embedded()).unwrap();
        for dataset in [&chat, &bare] {
            let Prompt::Text(text) = &dataset.cases[0].prompt else { panic!("a text was expected") };
            assert!(text.starts_with(TASK), "{text}");
        }
        assert_eq!((chat.notices.len(), bare.notices.len()), (0, 1));
    }

    #[test]
    fn lengths_without_room_are_refused() {
        for (plan, words) in [
            (of(0, 3, 1), "the prompt without any line has"),
            (of(0, 100, 2000), "1000 draws made no prompt of at most so many tokens: 100"),
            (DatasetPlan { dataset_path: None, ..of(0, 300, 1) }, "has no file"),
        ] {
            let error = rows(&plan, &tokenizer()).unwrap_err();
            assert!(error.what.contains(words), "{error}");
        }
    }
}
