//! What the synthetic model intends to write. Masks decide whether it may.

use std::collections::VecDeque;

use super::repeating::Repeating;

/// Tokens after which a long text of its own starts anew, so that the end bias stays low.
pub(super) const WORDS_PER_START: u32 = 48;

/// Token budget of one filled value: the end bias closes it before.
pub(super) const FILL_BUDGET: u32 = 140;

/// Number of bytes of a filled value that are kept. Longer than any text that ends one.
pub(super) const KEPT_BYTES: usize = 128;

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This text. White space that the mask refuses is left out.
    Write(String),
    /// Exactly this text, as far as the mask allows.
    Repeat(String),
    /// This number of tokens of the model's own text. The text does not end here.
    Words(u32),
    /// The model's own text, then `end` as soon as the mask allows it, but not before a text that is
    /// not white space. With `is_json`, open JSON is closed first.
    Fill { end: String, is_json: bool },
    /// The end token.
    End,
}

/// The remaining steps of an answer.
#[derive(Debug, Default)]
pub(super) struct Script {
    steps: VecDeque<Running>,
}

/// A step and its state.
#[derive(Debug)]
pub(super) enum Running {
    Write {
        text: Repeating,
        skips_space: bool,
    },
    Words {
        left: u32,
    },
    Fill {
        end: Repeating,
        is_json: bool,
        tokens: u32,
        /// The end of what is written in this step.
        written: Vec<u8>,
        is_ending: bool,
    },
    End,
}

impl Script {
    pub(super) fn new(steps: Vec<Step>) -> Self {
        let running = |step| match step {
            Step::Write(text) => Running::Write {
                text: Repeating::new(&text),
                skips_space: true,
            },
            Step::Repeat(text) => Running::Write {
                text: Repeating::new(&text),
                skips_space: false,
            },
            Step::Words(left) => Running::Words { left },
            Step::Fill { end, is_json } => Running::Fill {
                end: Repeating::new(&end),
                is_json,
                tokens: 0,
                written: Vec::new(),
                is_ending: false,
            },
            Step::End => Running::End,
        };
        Self {
            steps: steps.into_iter().map(running).collect(),
        }
    }

    /// The current step. Removes steps that are done.
    pub(super) fn current(&mut self) -> Option<&mut Running> {
        while self.steps.front().is_some_and(Running::is_done) {
            self.steps.pop_front();
        }
        self.steps.front_mut()
    }

    /// Drops all steps.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
    }
}

impl Running {
    fn is_done(&self) -> bool {
        match self {
            Self::Write { text, .. } => text.is_done(),
            Self::Words { left } => *left == 0,
            Self::Fill { end, is_ending, .. } => *is_ending && end.is_done(),
            Self::End => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_are_done_are_removed() {
        let mut script = Script::new(vec![
            Step::Write(String::new()),
            Step::Words(0),
            Step::Repeat(String::new()),
            Step::End,
        ]);
        assert!(matches!(script.current(), Some(Running::End)));
        script.clear();
        assert!(script.current().is_none());
    }

    #[test]
    fn a_fill_without_its_end_is_not_done() {
        let mut script = Script::new(vec![Step::Fill {
            end: String::new(),
            is_json: true,
        }]);
        assert!(matches!(
            script.current(),
            Some(Running::Fill { tokens: 0, .. })
        ));
    }
}
