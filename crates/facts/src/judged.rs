//! What judging a request showed: its verdict, token counts and checks.

pub mod spelling;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::spelling::Spelling;
use crate::Sample;
use crate::client_reads::ClientReads;
use crate::columns::{Bits, Column, Copied, Dense, Few, Interned, Maybe, Sparse, Texts, columns};
use crate::parity::Parity;
use crate::reasoning::ReasoningFacts;
use sobench_core::answer::Answer;
use sobench_core::observation::Outcome;
use sobench_core::tools::ToolSet;
use sobench_core::verdict::{NotScored, Verdict};
use sobench_judge::accuracy::{Accuracy, Grade, Leaves};
use sobench_judge::canary::CanaryAnswer;
use sobench_judge::free_choices::FreeChoices;
use sobench_judge::function_calls;

columns! {
    /// The verdict, token counts and checks of one request, computed after the run. Read from a JSON
    /// value: buffering text in a flattened member would change numbers.
    #[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
    pub struct Judged in Sample.judged: JudgedColumns {
        /// The verdict; of a request that was not judged, that of a cancelled one.
        #[serde(flatten)]
        verdict: Verdict => Interned<Verdict>,
        /// The token counts of the server or the tokenizer.
        tokens: Tokens => TokenCounts,
        /// Whether vLLM's script counts the answer as correct; `None` if it does not score it
        /// (grammars).
        vllm_correct: Option<bool> => Bits<Option<bool>>,
        /// Whether the answer was truncated while writing only white space
        /// ([`sobench_judge::is_white_space_run`]).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        white_space_run: bool => Bits<bool>,
        /// Whether the answer was truncated at the token limit and follows its constraint all the same.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool => Bits<bool>,
        /// Whether the answer is the expected call; `None` without an expected call.
        #[serde(skip_serializing_if = "Option::is_none")]
        right_call: Option<bool> => Bits<Option<bool>>,
        /// The comparison with the reference of the request; `None` without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        accuracy: Option<Accuracy> => Graded,
        /// Whether the answer has tool calls; `None` without an answer, and for requests without
        /// tools.
        #[serde(skip_serializing_if = "Option::is_none")]
        made_call: Option<bool> => Bits<Option<bool>>,
        /// Whether a tool call is due; `None` if that is unknown, and for requests without tools.
        #[serde(skip_serializing_if = "Option::is_none")]
        call_due: Option<bool> => Bits<Option<bool>>,
        /// The name of the first tool that the answer calls; `None` without a call, and for requests
        /// without tools.
        #[serde(skip_serializing_if = "Option::is_none")]
        called_tool: Option<String> => Texts,
        /// What the reasoning shows; `None` without reasoning and marks of it.
        #[serde(rename = "reasoning", skip_serializing_if = "Option::is_none")]
        reasoning_facts: Option<ReasoningFacts> => Copied<ReasoningFacts>,
        /// Whether the streamed answer equals the whole one; `None` if that was not checked.
        #[serde(skip_serializing_if = "Option::is_none")]
        parity: Option<Parity> => Sparse<Parity>,
        /// The spelling of a JSON answer; `None` for others.
        #[serde(skip_serializing_if = "Option::is_none")]
        free_choices: Option<FreeChoices> => Copied<FreeChoices, Spelling>,
        /// The class of an answer to a canary request; `None` for others.
        #[serde(skip_serializing_if = "Option::is_none")]
        canary: Option<CanaryAnswer> => Sparse<CanaryAnswer>,
        /// What clients read of an answer that they do not all read alike; `None` for others.
        #[serde(skip_serializing_if = "Option::is_none")]
        clients: Option<ClientReads> => Maybe<ClientReads>,
    }
}

impl Default for Judged {
    /// Of a request that was not judged.
    fn default() -> Self {
        Self::from_verdict(Verdict::NotScored {
            why: NotScored::Cancelled,
        })
    }
}

impl Judged {
    /// A verdict alone.
    pub fn from_verdict(verdict: Verdict) -> Self {
        Self {
            verdict,
            tokens: Tokens::default(),
            vllm_correct: None,
            white_space_run: false,
            whole: false,
            right_call: None,
            accuracy: None,
            made_call: None,
            call_due: None,
            called_tool: None,
            reasoning_facts: None,
            parity: None,
            free_choices: None,
            canary: None,
            clients: None,
        }
    }

    /// Sets the facts about tool calls of a request that offers tools.
    pub fn add_tool_calls(
        &mut self,
        tools: Option<&ToolSet>,
        completion: Option<&str>,
        outcome: &Outcome,
        answer: &Answer,
    ) {
        let Some(tools) = tools else { return };
        self.made_call = outcome.is_answer().then_some(!answer.tool_calls.is_empty());
        self.call_due = function_calls::is_due(completion, tools);
        self.called_tool = answer.tool_calls.first().map(|call| call.name.clone());
    }
}

/// Token counts of one request and their sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Tokens {
    pub input: Option<u64>,
    pub input_source: TokenSource,
    pub output: Option<u64>,
    pub output_source: TokenSource,
}

/// The source of a token count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The server's `usage`.
    Server,
    /// The tokenizer that the user named as the model's (`--tokenizer`).
    Tokenizer,
    /// The tokenizer of another model.
    OtherTokenizer,
    /// Not counted.
    #[default]
    Unknown,
}

impl Few for TokenSource {
    const BITS: u32 = 2;
    fn to_bits(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Server => 1,
            Self::Tokenizer => 2,
            Self::OtherTokenizer => 3,
        }
    }
    fn from_bits(bits: u64) -> Self {
        [
            Self::Unknown,
            Self::Server,
            Self::Tokenizer,
            Self::OtherTokenizer,
        ][bits as usize]
    }
}

/// Token counts in 32 bits each, and the few that do not fit.
#[derive(Clone, Debug, Default)]
pub struct TokenCounts {
    input: Dense<Option<u32>, u32>,
    output: Dense<Option<u32>, u32>,
    input_source: Bits<TokenSource>,
    output_source: Bits<TokenSource>,
    large: Copied<Tokens>,
}

impl Column for TokenCounts {
    type Value = Tokens;
    type Shown<'a> = Tokens;

    fn set(&mut self, row: u32, tokens: Tokens) {
        let fits = |count: Option<u64>| count.is_none_or(|count| count < u64::from(u32::MAX));
        let small = |count: Option<u64>| count.map(|count| count as u32);
        let all_fit = fits(tokens.input) && fits(tokens.output);
        self.large.set(row, (!all_fit).then_some(tokens));
        self.input.set(row, small(tokens.input.filter(|_| all_fit)));
        self.output
            .set(row, small(tokens.output.filter(|_| all_fit)));
        self.input_source.set(row, tokens.input_source);
        self.output_source.set(row, tokens.output_source);
    }

    fn get(&self, row: u32) -> Tokens {
        self.large.get(row).unwrap_or_else(|| Tokens {
            input: self.input.get(row).map(u64::from),
            input_source: self.input_source.get(row),
            output: self.output.get(row).map(u64::from),
            output_source: self.output_source.get(row),
        })
    }

    fn value(&self, row: u32) -> Tokens {
        self.get(row)
    }

    fn reserve(&mut self, rows: usize) {
        self.input.reserve(rows);
        self.output.reserve(rows);
    }
}

/// Grades in 4 bits each, and the leaves of the few answers that were compared leaf by leaf.
#[derive(Clone, Debug, Default)]
pub struct Graded {
    grade: Bits<Option<Grade>>,
    leaves: Copied<Leaves>,
}

impl Column for Graded {
    type Value = Option<Accuracy>;
    type Shown<'a> = Option<Accuracy>;

    fn set(&mut self, row: u32, accuracy: Option<Accuracy>) {
        self.grade
            .set(row, accuracy.as_ref().map(|accuracy| accuracy.grade));
        self.leaves
            .set(row, accuracy.and_then(|accuracy| accuracy.leaves));
    }

    fn get(&self, row: u32) -> Option<Accuracy> {
        Some(Accuracy {
            grade: self.grade.get(row)?,
            leaves: self.leaves.get(row),
        })
    }

    fn value(&self, row: u32) -> Option<Accuracy> {
        self.get(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_counts_of_any_size_round_trip() {
        let mut column = TokenCounts::default();
        let counts = [None, Some(0), Some(u64::from(u32::MAX)), Some(u64::MAX)];
        let tokens = |input| Tokens {
            input,
            output: Some(4),
            input_source: TokenSource::Server,
            output_source: TokenSource::OtherTokenizer,
        };
        for (row, input) in (0..).zip(counts) {
            column.set(row, tokens(input));
        }
        for (row, input) in (0..).zip(counts) {
            assert_eq!(column.get(row), tokens(input));
        }
        column.set(3, Tokens::default());
        assert_eq!(column.get(3), Tokens::default());
    }

    #[test]
    fn grades_have_leaves_if_they_were_counted() {
        let mut column = Graded::default();
        let leaves = Leaves {
            wrong: 1,
            ..Leaves::default()
        };
        let with = |leaves| {
            Some(Accuracy {
                grade: Grade::Wrong,
                leaves,
            })
        };
        column.set(1, with(Some(leaves)));
        column.set(2, with(None));
        let found = [0, 1, 2].map(|row| column.get(row));
        assert_eq!(found, [None, with(Some(leaves)), with(None)]);
    }
}
