//! Requests without an answer, by message.
//!
//! Messages often name a request, a time or an address. Numbers, ids and addresses are replaced, so
//! that one cause is one group.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use sobench_core::observation::failure_message;
use sobench_core::printable::{MESSAGE_CHARS, shortened};
use sobench_facts::Sample;

/// The most groups that are listed.
pub const MAX_GROUPS: usize = 8;

/// Replacement of a number, an id or an address.
const ID: char = '#';

/// A word with several numbers is an id from this length on.
const MIN_ID_CHARS: usize = 8;

/// The start of a message with the status of a response, which is no id.
const STATUS: &str = "HTTP ";

/// Requests with the same outcome and the same message, ids aside.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ErrorGroup {
    pub outcome: &'static str,
    pub count: usize,
    /// The first request of the group, in plan order, and its message, which may be shortened.
    pub first_request: String,
    pub message: String,
}

/// The errors of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ErrorGroups {
    /// The most frequent first; at most [`MAX_GROUPS`].
    pub groups: Vec<ErrorGroup>,
    /// Other groups, and their requests.
    pub more_groups: usize,
    pub more_requests: usize,
}

impl ErrorGroups {
    /// Groups the requests without an answer. Requests that were cancelled at the end of the run
    /// and abandoned ones are left out.
    pub fn new(samples: &[Sample<'_>]) -> Self {
        let mut groups: Vec<ErrorGroup> = Vec::new();
        let mut places: HashMap<(&str, String), usize> = HashMap::new();
        let failed = samples
            .iter()
            .filter(|sample| !sample.outcome().is_answer() && !sample.outcome().is_cut_by_client());
        for sample in failed {
            let message = failure_message(sample.outcome());
            let message = shortened(&message, MESSAGE_CHARS);
            let outcome = sample.outcome().name();
            let place = *places
                .entry((outcome, pattern(&message)))
                .or_insert_with(|| {
                    groups.push(ErrorGroup {
                        outcome,
                        count: 0,
                        first_request: sample.id(),
                        message: message.clone(),
                    });
                    groups.len() - 1
                });
            groups[place].count += 1;
        }
        // Stable: of equal counts, the group with the earlier request is first.
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        let more = groups.split_off(groups.len().min(MAX_GROUPS));
        Self {
            groups,
            more_groups: more.len(),
            more_requests: more.iter().map(|group| group.count).sum(),
        }
    }
}

/// The message with a placeholder for each number, id, address and list of them.
fn pattern(message: &str) -> String {
    let (status, rest) = match message.strip_prefix(STATUS) {
        Some(rest) => {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            message.split_at(STATUS.len() + digits)
        }
        None => ("", message),
    };
    let mut words = String::with_capacity(rest.len());
    let mut rest = rest;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let word = rest.len() - rest.trim_start_matches(is_word).len();
        add_word(&mut words, &rest[..word]);
        let between = rest[word..].find(is_word).unwrap_or(rest.len() - word);
        words.push_str(&rest[word..word + between]);
        rest = &rest[word + between..];
    }
    // Decimals, addresses with ports, and lists.
    for separated in ["#.#", "#:#", "#, #", "##"] {
        while words.contains(separated) {
            words = words.replace(separated, "#");
        }
    }
    format!("{status}{words}")
}

fn add_word(words: &mut String, word: &str) {
    let is_digit = |c: char| c.is_ascii_digit();
    let Some(first) = word.find(is_digit) else {
        words.push_str(word);
        return;
    };
    let is_hex = word.starts_with("0x") || word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    // From the part with the first number on: in `chatcmpl-9f3a`, from `9f3a` on.
    let stem = word[..first].rfind(['-', '_']).map_or(0, |at| at + 1);
    let runs = word
        .split(|c: char| !is_digit(c))
        .filter(|run| !run.is_empty());
    if is_hex {
        words.push(ID);
    } else if runs.count() > 1 && word.len() - stem >= MIN_ID_CHARS {
        words.push_str(&word[..stem]);
        words.push(ID);
    } else {
        words.extend(word.chars().map(|c| if is_digit(c) { ID } else { c }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::Outcome;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    #[test]
    fn numbers_ids_and_addresses_are_replaced() {
        for (messages, expected) in [
            (
                ["cannot allocate 512 MiB", "cannot allocate 1.25 MiB"],
                "cannot allocate # MiB",
            ),
            (
                [
                    "request chatcmpl-9f3a77b2c1 aborted",
                    "request chatcmpl-0be14c9d21 aborted",
                ],
                "request chatcmpl-# aborted",
            ),
            (
                [
                    "id 123e4567-e89b-12d3-a456-426614174000",
                    "id 00000000-0000-0000-0000-0000000000aa",
                ],
                "id #",
            ),
            (["at 0x7ffd21a0 in f", "at 0xdeadbeef in f"], "at # in f"),
            (
                ["10.0.0.7:8000: reset", "192.168.1.254:31022: reset"],
                "#: reset",
            ),
            (["tokens [1, 2, 3]", "tokens [44]"], "tokens [#]"),
            (
                ["HTTP 503: worker-3 is gone", "HTTP 503: worker-12 is gone"],
                "HTTP 503: worker-# is gone",
            ),
        ] {
            assert_eq!(messages.map(pattern), [expected, expected]);
        }
        assert_ne!(pattern("HTTP 500: no"), pattern("HTTP 503: no"));
        assert_eq!(
            pattern("CUDA out of memory — naïve"),
            "CUDA out of memory — naïve"
        );
        assert_eq!(pattern(""), "");
    }

    #[test]
    fn frequent_errors_come_first_and_rare_ones_are_counted() {
        let failed = |message: String| TestRequest {
            outcome: Outcome::StreamError { message },
            chunks: vec![],
            ..test_request()
        };
        let mut run = vec![test_request()];
        run.extend((0..3).map(|index| failed(format!("step {index} failed"))));
        let letters = "abcdefghij".chars();
        run.extend(letters.map(|letter| failed(format!("cause {letter}"))));
        run.push(failed("cause j".to_owned()));
        run.push(TestRequest {
            outcome: Outcome::Cancelled,
            ..test_request()
        });
        let found = with_samples(&run, ErrorGroups::new);
        assert_eq!(found.groups.len(), MAX_GROUPS);
        assert_eq!((found.more_groups, found.more_requests), (3, 3));
        let first: Vec<_> = found.groups[..3]
            .iter()
            .map(|group| (group.count, group.first_request.as_str(), &*group.message))
            .collect();
        assert_eq!(
            first,
            [
                (3, "case-1", "step 0 failed"),
                (2, "case-13", "cause j"),
                (1, "case-4", "cause a"),
            ]
        );
        assert_eq!(
            with_samples(&[test_request()], ErrorGroups::new),
            ErrorGroups::default()
        );
    }
}
