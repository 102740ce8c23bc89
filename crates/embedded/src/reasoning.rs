//! The reasoning phase: the marks around the thoughts of a model, by family.
//!
//! Sources: the chat templates of DeepSeek-R1, Qwen3 and gpt-oss, and vLLM's reasoning parsers.
//! DeepSeek's template puts the start mark into the prompt, so its answers have none.

use super::channels::{safe_bytes, take_before};
use sobench_core::registry;

/// The marks of one family.
pub struct ReasoningSpec {
    /// The name in `--embedded-reasoning-style`.
    pub name: &'static str,
    /// The line in `--help`.
    pub about: &'static str,
    /// Text before the thoughts. May be empty.
    pub(super) start: &'static str,
    /// Text after the thoughts.
    pub(super) end: &'static str,
    /// The mark in [`Self::end`], without white space.
    pub(super) end_mark: &'static str,
}

const DEEPSEEK: ReasoningSpec = ReasoningSpec {
    name: "deepseek",
    about: "DeepSeek-R1: thoughts up to </think>",
    start: "",
    end: "\n</think>\n\n",
    end_mark: "</think>",
};

const QWEN3: ReasoningSpec = ReasoningSpec {
    name: "qwen3",
    about: "Qwen3: thoughts between <think> and </think>",
    start: "<think>\n",
    end: "\n</think>\n\n",
    end_mark: "</think>",
};

const GPT_OSS: ReasoningSpec = ReasoningSpec {
    name: "gpt-oss",
    about: "gpt-oss: thoughts in the channel analysis",
    start: "<|channel|>analysis<|message|>",
    end: "<|end|><|start|>assistant<|channel|>final<|message|>",
    end_mark: "<|channel|>final<|message|>",
};

registry! {
    /// A family of reasoning models, named as in `--embedded-reasoning-style`.
    #[derive(Default)]
    pub enum ReasoningStyle is "reasoning style" with ReasoningSpec {
        Deepseek => DEEPSEEK,
        #[default]
        Qwen3 => QWEN3,
        GptOss => GPT_OSS,
    }
}

/// Splits an answer that starts with reasoning, piece by piece.
pub(super) struct ReasoningParser {
    style: ReasoningStyle,
    buffer: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Reasoning,
    Content,
}

/// The channels of a piece of text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) reasoning: String,
    pub(super) content: String,
}

impl ReasoningParser {
    pub(super) fn new(style: ReasoningStyle) -> Self {
        Self {
            style,
            buffer: String::new(),
            state: State::Start,
        }
    }

    /// Reads the next piece.
    pub(super) fn push(&mut self, text: &str) -> Split {
        self.buffer.push_str(text);
        let mut split = Split::default();
        let spec = self.style.spec();
        if self.state == State::Start {
            if let Some(rest) = self.buffer.strip_prefix(spec.start) {
                self.buffer = rest.to_owned();
            } else if safe_bytes(&self.buffer, &[spec.start]) == 0 {
                return split;
            }
            self.state = State::Reasoning;
        }
        if self.state == State::Reasoning {
            let (reasoning, is_end) = take_before(&mut self.buffer, spec.end);
            split.reasoning = reasoning;
            if is_end {
                self.state = State::Content;
            }
        }
        if self.state == State::Content {
            split.content = std::mem::take(&mut self.buffer);
        }
        split
    }

    /// The rest, which is reasoning if the end mark is missing.
    pub(super) fn finish(&mut self) -> Split {
        Split {
            reasoning: std::mem::take(&mut self.buffer),
            content: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(style: ReasoningStyle, pieces: &[&str]) -> Split {
        let mut parser = ReasoningParser::new(style);
        let mut split = Split::default();
        let mut add = |more: Split| {
            split.reasoning.push_str(&more.reasoning);
            split.content.push_str(&more.content);
        };
        pieces.iter().for_each(|piece| add(parser.push(piece)));
        add(parser.finish());
        split
    }

    #[test]
    fn channels_do_not_depend_on_the_pieces() {
        for style in ReasoningStyle::ALL {
            let spec = style.spec();
            for (reasoning, content) in [
                ("Hm <th, é\n", "\n\n{\"a\": 1}</think>"),
                ("", "x"),
                ("so\n</thin", ""),
            ] {
                let text = format!("{}{reasoning}{}{content}", spec.start, spec.end);
                let expected = Split {
                    reasoning: reasoning.to_owned(),
                    content: content.to_owned(),
                };
                for (cut, _) in text.char_indices() {
                    let (start, end) = text.split_at(cut);
                    assert_eq!(read(style, &[start, end]), expected, "{style}: {cut}");
                }
            }
            let cut = format!("{}not yet\n<", spec.start);
            assert_eq!(read(style, &[&cut]).reasoning, "not yet\n<", "{style}");
            assert!(spec.end.contains(spec.end_mark));
        }
    }
}
