//! The datasets `random` and `random-prefix`: prompts of a wanted number of tokens, out of the vocabulary. Knows no server.
//!
//! By the rules of `RandomDataset` in vLLM 0.32: lengths, places in the vocabulary and the shared beginning come from one
//! `numpy.random.default_rng(seed)`, in this order, so that the same seed and tokenizer make the same prompts. vLLM then asks a
//! server that has `/tokenize` to cut or fill them up once more, which is not done here: the tokenizer is the run's own.

use super::exact::{check_amount, notice, of_length, vocabulary_size};
use super::{DatasetPlan, MAX_PROMPT_TOKENS, Row, Rows, RowsKind, SHIPPED};
use crate::case::Prompt;
use crate::error::{Error, Result};
use crate::random::NumpyGenerator;
use crate::tokenizer::Tokenizer;

/// A row a prompt.
///
/// # Errors
/// Lengths that make no prompt, or too much of them.
pub(super) fn rows(plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Rows> {
    let (input, output) = bounds(plan, tokenizer)?;
    let mut source = Source { generator: NumpyGenerator::new(plan.seed), vocabulary_size: vocabulary_size(tokenizer)? };
    let count = plan.num_prompts;
    let input_lens = source.within(input, count);
    let output_lens = source.within(output, count);
    let offsets = source.tokens(count);
    let special = tokenizer.special_ids();
    let allowed: Vec<u32> = (0..tokenizer.vocabulary_size()).filter(|id| special.binary_search(id).is_err()).collect();
    if allowed.is_empty() {
        return Err(Error::usage(format!("the tokenizer has no token that is not special: {}", tokenizer.id())));
    }

    let prefix_len = plan.drawing.lengths.prefix as usize;
    let prefix = if prefix_len == 0 {
        Vec::new()
    } else {
        let places = source.generator.integers(0, allowed.len() as u64, prefix_len);
        let drawn = places.into_iter().map(|place| allowed[place as usize]).collect();
        of_length(tokenizer, drawn, prefix_len, &mut |missing| source.tokens(missing)).tokens
    };
    let mut excess = 0;
    let mut rows = Vec::with_capacity(count);
    for (index, ((input_len, output_len), offset)) in input_lens.into_iter().zip(output_lens).zip(offsets).enumerate() {
        let first = offset as usize + index;
        let own = (0..input_len as usize).map(|place| allowed[(first + place) % allowed.len()]);
        let tokens = prefix.iter().copied().chain(own).collect();
        let wanted = prefix_len + input_len as usize;
        let made = of_length(tokenizer, tokens, wanted, &mut |missing| source.tokens(missing));
        excess += made.excess(wanted);
        let row = Row::free(Prompt::Text(made.text.into()));
        rows.push(Row { output_len: u32::try_from(output_len).ok(), name: format!("prompt {index}"), ..row });
    }
    let notices = notice(excess).into_iter().collect();
    Ok(Rows { rows, kind: RowsKind::Whole, source: SHIPPED.to_owned(), converted_from: None, notices })
}

struct Source {
    generator: NumpyGenerator,
    vocabulary_size: u32,
}

impl Source {
    /// Numbers from the first to the second of the pair.
    fn within(&mut self, (least, most): (u64, u64), count: usize) -> Vec<u64> {
        self.generator.integers(least, most + 1, count)
    }

    /// Ids from the whole vocabulary.
    fn tokens(&mut self, count: usize) -> Vec<u32> {
        let drawn = self.generator.integers(0, u64::from(self.vocabulary_size), count);
        drawn.into_iter().map(|id| id as u32).collect()
    }
}

/// The least and the greatest length of an input without the shared beginning, and of an answer. What the tokenizer adds to every
/// text is taken off the input.
fn bounds(plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<((u64, u64), (u64, u64))> {
    let lengths = plan.drawing.lengths;
    for range in [lengths.input_range, lengths.output_range] {
        if !(0.0..1.0).contains(&range) {
            return Err(Error::usage(format!("the range of lengths has to be from 0 to below 1: {range}"))
                .hint("give --random-range-ratio 0.3, or '{\"input\": 0.3, \"output\": 0.5}'"));
        }
    }
    let around = |middle: f64, range: f64| ((middle * (1.0 - range)).floor() as u64, (middle * (1.0 + range)).ceil() as u64);
    let added = tokenizer.added_tokens();
    let input = around((f64::from(lengths.input) - added as f64).max(0.0), lengths.input_range);
    let (least, most) = around(f64::from(plan.output_len), lengths.output_range);
    if u64::from(lengths.prefix) + input.0 < 1 {
        let what = format!("a prompt could have no token, with the {added} that the tokenizer adds: {}", lengths.input);
        return Err(Error::usage(what).hint("raise --random-input-len or --random-prefix-len, or lower the range"));
    }
    check_amount(u64::from(lengths.prefix) + input.1, plan.num_prompts)?;
    if most > u64::from(MAX_PROMPT_TOKENS) && lengths.output_range > 0.0 {
        return Err(Error::usage(format!("answers of a drawn length may have at most {MAX_PROMPT_TOKENS} tokens: {most}"))
            .hint("lower --random-output-len"));
    }
    Ok((input, (least.max(1), most.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden::{check, lengths};
    use crate::dataset::tests::{plan, tokenizer};
    use crate::dataset::{DatasetName, Drawing, Lengths};

    fn of(seed: u64, num_prompts: usize, output_len: u32, lengths: Lengths) -> DatasetPlan {
        let drawing = Drawing { lengths, ..Drawing::default() };
        DatasetPlan { seed, num_prompts, output_len, drawing, ..plan(DatasetName::Random) }
    }

    #[test]
    fn prompts_and_lengths_are_vllms() {
        let some = Lengths::default();
        let plain = check(&of(0, 6, 7, Lengths { input: 40, ..some }), "random", "plain");
        assert_eq!(plain.cases[5].id, "random-5");
        let counted: Vec<u64> = plain
            .cases
            .iter()
            .map(|case| match &case.prompt {
                Prompt::Text(text) => tokenizer().count(text) as u64,
                other => panic!("not {}", other.kind()),
            })
            .collect();
        assert_eq!(counted, lengths("random", "plain"));
        check(&of(7, 8, 20, Lengths { input: 50, input_range: 0.5, output_range: 0.25, ..some }), "random", "ranged");
        let prefixed = Lengths { prefix: 24, input: 16, input_range: 0.3, output_range: 0.3, ..some };
        let plan = DatasetPlan { name: DatasetName::RandomPrefix, ..of(4_294_967_301, 5, 3, prefixed) };
        check(&plan, "random", "prefixed");
    }

    #[test]
    fn the_embedded_tokenizer_makes_prompts_of_the_length() {
        let plan = of(1, 20, 3, Lengths { prefix: 7, input: 200, ..Lengths::default() });
        let tokenizer = Tokenizer::embedded();
        for row in rows(&plan, &tokenizer).unwrap().rows {
            let Prompt::Text(text) = row.prompt else { panic!("a text was expected") };
            let count = tokenizer.count(&text);
            assert!(count.abs_diff(207) <= 20, "{count}: {text}");
        }
    }

    #[test]
    fn answers_as_long_as_can_be_asked_for_are_no_panic() {
        let long = |output_range| of(0, 2, u32::MAX, Lengths { input: 5, output_range, ..Lengths::default() });
        assert_eq!(rows(&long(0.0), &tokenizer()).unwrap().rows[1].output_len, Some(u32::MAX));
        assert!(rows(&long(0.5), &tokenizer()).unwrap_err().what.contains("at most 10000000 tokens: 6442450943"));
    }

    #[test]
    fn lengths_that_make_no_prompt_are_refused() {
        let some = Lengths::default();
        for (lengths, words) in [
            (Lengths { input_range: 1.0, ..some }, "range of lengths has to be from 0 to below 1: 1"),
            (Lengths { output_range: -0.5, ..some }, "range of lengths has to be from 0 to below 1: -0.5"),
            (Lengths { output_range: f64::NAN, ..some }, "to below 1: NaN"),
            (Lengths { input: 0, ..some }, "a prompt could have no token"),
            (Lengths { input: 1, input_range: 0.5, ..some }, "a prompt could have no token"),
            (Lengths { input: 9_999_999, prefix: 2, ..some }, "more than 10000000 tokens: 10000001"),
        ] {
            let error = rows(&of(0, 1, 5, lengths), &tokenizer()).unwrap_err();
            assert!(error.what.contains(words), "{error}");
        }
    }
}
