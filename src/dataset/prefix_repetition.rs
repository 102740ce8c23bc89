//! The dataset `prefix_repetition`: random tokens behind one of several shared beginnings. Knows no server.
//!
//! By the rules of `PrefixRepetitionRandomDataset` in vLLM 0.32: `numpy.random.seed(seed)` and `random.seed(seed)`, tokens by
//! `numpy.random.randint`, the order by `random.shuffle`. Each beginning gets equally many prompts, so that there may be fewer than
//! asked for.

use super::exact::{check_amount, notice, of_length, vocabulary_size};
use super::{DatasetPlan, Row, Rows, RowsKind, SHIPPED};
use crate::case::Prompt;
use crate::error::{Error, Result};
use crate::notice::DatasetNotice;
use crate::random::NumpyRandom;
use crate::tokenizer::Tokenizer;

/// A row a prompt.
///
/// # Errors
/// Fewer prompts than beginnings, no beginning, prompts without a token or too long, a seed that NumPy's generator does not take.
pub(super) fn rows(plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Rows> {
    let lengths = plan.drawing.lengths;
    let (prefixes, count) = (lengths.prefixes as usize, plan.num_prompts);
    if prefixes == 0 || prefixes > count {
        return Err(Error::usage(format!("{count} prompts cannot have so many different beginnings: {prefixes}"))
            .hint("lower --prefix-repetition-num-prefixes, or raise --num-prompts"));
    }
    let wanted = u64::from(lengths.prefix) + u64::from(lengths.input);
    if wanted == 0 {
        return Err(Error::usage("a prompt would have no token: 0").hint("raise --prefix-repetition-suffix-len"));
    }
    check_amount(wanted, count)?;
    let mut source = NumpyRandom::new(plan.numpy_seed()?);
    let vocabulary_size = u64::from(vocabulary_size(tokenizer)?);
    let mut excess = 0;
    let mut tokens = |length: u32| {
        let mut draw = |count: usize| source.randint(vocabulary_size, count).into_iter().map(|id| id as u32).collect();
        let drawn: Vec<u32> = draw(length as usize);
        let made = of_length(tokenizer, drawn, length as usize, &mut draw);
        excess += made.excess(length as usize);
        made.tokens
    };
    let mut rows = Vec::with_capacity(count);
    for _ in 0..prefixes {
        let prefix = tokens(lengths.prefix);
        for _ in 0..count / prefixes {
            let whole: Vec<u32> = prefix.iter().copied().chain(tokens(lengths.input)).collect();
            let name = format!("prompt {}", rows.len());
            rows.push(Row { name, ..Row::free(Prompt::Text(tokenizer.decode(&whole).into())) });
        }
    }
    plan.put_in_order(&mut rows);
    let fewer = (rows.len() < count).then(|| DatasetNotice::FewerPrompts { prompts: rows.len(), wanted: count, prefixes }.into());
    let notices = notice(excess).into_iter().chain(fewer).collect();
    Ok(Rows { rows, kind: RowsKind::Whole, source: SHIPPED.to_owned(), converted_from: None, notices })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::golden::check;
    use crate::dataset::tests::{plan, tokenizer};
    use crate::dataset::{DatasetName, Drawing, Lengths, Order};

    fn with(seed: u64, num_prompts: usize, lengths: Lengths, order: Order) -> DatasetPlan {
        let drawing = Drawing { lengths, order, ..Drawing::default() };
        DatasetPlan { seed, num_prompts, drawing, ..plan(DatasetName::PrefixRepetition) }
    }

    #[test]
    fn prompts_are_vllms() {
        let lengths = Lengths { prefix: 12, input: 9, prefixes: 3, ..Lengths::default() };
        let plain = check(&DatasetPlan { output_len: 5, ..with(0, 11, lengths, Order::Shuffled) }, "prefix_repetition", "plain");
        assert_eq!(plain.notices[1].to_string(), "9 prompts of 11: each of the 3 beginnings gets equally many");
        let lengths = Lengths { prefix: 5, input: 20, prefixes: 2, ..Lengths::default() };
        check(&with(3, 4, lengths, Order::AsStored), "prefix_repetition", "in_order");
    }

    #[test]
    fn what_makes_no_prompts_is_refused() {
        let some = Lengths { prefix: 1, input: 1, prefixes: 3, ..Lengths::default() };
        for (plan, words) in [
            (with(0, 2, some, Order::Shuffled), "2 prompts cannot have so many different beginnings: 3"),
            (with(0, 4, Lengths { prefixes: 0, ..some }, Order::Shuffled), "so many different beginnings: 0"),
            (with(0, 4, Lengths { prefix: 0, input: 0, ..some }, Order::Shuffled), "no token"),
            (with(1 << 32, 4, some, Order::Shuffled), "no seed above 4294967295: 4294967296"),
            (with(0, 1000, Lengths { input: 9_000_000, ..some }, Order::Shuffled), "tokens in all: 9000001000"),
        ] {
            let error = rows(&plan, &tokenizer()).unwrap_err();
            assert!(error.what.contains(words), "{error}");
        }
    }
}
