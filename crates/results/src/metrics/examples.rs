//! Groups of requests with counts and examples. Control characters are not escaped.

use schemars::JsonSchema;
use serde::Serialize;

use sobench_core::case::Arm;
use sobench_core::printable::{MESSAGE_CHARS, cut, shortened};
use sobench_facts::Sample;

/// Maximum size of the answer in an example, in bytes. The detailed result has the whole answer.
pub const MAX_EXAMPLE_TEXT_BYTES: usize = 400;

/// Maximum number of examples in a group.
pub const MAX_EXAMPLES: usize = 5;

/// An example request.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Example {
    pub case_id: String,
    pub arm: Arm,
    pub finish_reason: Option<String>,
    /// The start of the answer, at most [`MAX_EXAMPLE_TEXT_BYTES`].
    pub text: String,
    /// The size of the whole answer.
    pub text_bytes: usize,
    /// The finding, or the server's message, [`shortened`] to [`MESSAGE_CHARS`]: validators may quote
    /// the whole answer.
    #[serde(rename = "words")]
    pub message: String,
}

/// Requests with something in common, and the first few of them in plan order.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Group {
    pub name: &'static str,
    pub count: usize,
    /// At most [`MAX_EXAMPLES`].
    #[serde(rename = "excerpts")]
    pub examples: Vec<Example>,
}

impl Example {
    /// Sets the answer, for an example from an observation without its text.
    pub fn set_text(&mut self, text: &str) {
        cut(text, MAX_EXAMPLE_TEXT_BYTES).clone_into(&mut self.text);
        self.text_bytes = text.len();
    }

    /// Creates an example with an explanation. If the text is not in memory, call
    /// [`Example::set_text`].
    pub fn new(sample: &Sample<'_>, message: &str) -> Self {
        let text = sample.text();
        Self {
            case_id: sample.id(),
            arm: sample.arm(),
            finish_reason: sample.finish_reason().map(str::to_owned),
            text: cut(text, MAX_EXAMPLE_TEXT_BYTES).to_owned(),
            text_bytes: text.len(),
            message: shortened(message, MESSAGE_CHARS),
        }
    }
}

impl Group {
    /// A group without members.
    pub fn empty(name: &'static str) -> Self {
        Self {
            name,
            count: 0,
            examples: Vec::new(),
        }
    }

    /// Counts a request, and keeps it as an example if there is room.
    pub fn add(&mut self, sample: &Sample<'_>, message: &str) {
        self.count += 1;
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(Example::new(sample, message));
        }
    }

    /// Groups requests by the name that `classify` returns with an explanation; `None` leaves a
    /// request out. The most frequent group is first. Ties are sorted by name, so that a report
    /// does not depend on the plan's order.
    pub fn by<'s, 'a: 's>(
        samples: impl IntoIterator<Item = &'s Sample<'a>>,
        classify: impl Fn(&Sample<'a>) -> Option<(&'static str, String)>,
    ) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for sample in samples {
            let Some((name, message)) = classify(sample) else {
                continue;
            };
            let index = groups
                .iter()
                .position(|group| group.name == name)
                .unwrap_or_else(|| {
                    groups.push(Self::empty(name));
                    groups.len() - 1
                });
            groups[index].add(sample, &message);
        }
        groups.sort_by(|one, other| other.count.cmp(&one.count).then(one.name.cmp(other.name)));
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    #[test]
    fn text_is_cut_between_characters() {
        for (text, max, expected) in [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("aéb", 2, "a"),
            ("é", 1, ""),
            ("日本", 5, "日"),
            ("", 0, ""),
        ] {
            assert_eq!(cut(text, max), expected);
        }
    }

    #[test]
    fn example_reports_the_size_of_the_whole_answer() {
        let long = "é".repeat(MAX_EXAMPLE_TEXT_BYTES);
        let made = TestRequest {
            text: &long,
            ..test_request()
        };
        let message = "w".repeat(MESSAGE_CHARS + 50);
        let example = with_samples(&vec![made; 4], |samples| {
            Example::new(&samples[3], &message)
        });
        assert_eq!(
            (example.text.len(), example.text_bytes),
            (MAX_EXAMPLE_TEXT_BYTES, 2 * MAX_EXAMPLE_TEXT_BYTES)
        );
        assert_eq!(
            example.message,
            "w".repeat(MESSAGE_CHARS) + "… (50 bytes left out)"
        );
        assert_eq!(example.case_id, "case-3");
    }

    #[test]
    fn groups_keep_the_first_examples_and_count_all() {
        let name = |sample: &Sample<'_>| {
            if sample.case_index() == 1 {
                "rare"
            } else {
                "often"
            }
        };
        let groups = with_samples(&vec![test_request(); MAX_EXAMPLES + 2], |samples| {
            Group::by(samples, |sample| Some((name(sample), String::new())))
        });
        assert_eq!(
            groups
                .iter()
                .map(|group| (group.name, group.count))
                .collect::<Vec<_>>(),
            [("often", MAX_EXAMPLES + 1), ("rare", 1)]
        );
        let ids: Vec<&str> = groups[0]
            .examples
            .iter()
            .map(|example| example.case_id.as_str())
            .collect();
        assert_eq!(ids, ["case-0", "case-2", "case-3", "case-4", "case-5"]);
    }
}
