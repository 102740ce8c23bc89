//! What goes wrong with a request, and whether another request shows the same.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;

use sobench_core::printable::printable_message;

/// What a server did with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// The time to the first token, in milliseconds, and the text.
    Answered {
        ms: f64,
        text: String,
        /// Whether the model ended it.
        is_complete: bool,
        /// Whether the text is the arguments of a call.
        is_call: bool,
    },
    Failed(Failure),
}

/// Why a request has no answer, or a late one.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "failure", rename_all = "snake_case")]
pub enum Failure {
    /// A status of 400 and above, with the server's words.
    Refused { status: u16, message: String },
    /// More than the limit above the same request without the constraint.
    Slow { ms: f64, without_ms: f64 },
    /// No answer within the time limit.
    Hangs { limit_s: f64 },
    /// The connection ended without an answer.
    Crashes { message: String },
    /// An answer breaks the keyword.
    Ignored { keyword: String },
}

/// Characters of a normalised message that are compared.
const COMPARED_CHARS: usize = 160;

impl Failure {
    /// Whether both have the same cause, as far as the server's words show.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Refused { status, message },
                Self::Refused {
                    status: other_status,
                    message: other_message,
                },
            ) => status == other_status && has_same_words(message, other_message),
            // A constraint that is a little smaller may just end within the limit.
            (Self::Slow { .. } | Self::Hangs { .. }, Self::Slow { .. } | Self::Hangs { .. }) => {
                true
            }
            (Self::Crashes { .. }, Self::Crashes { .. })
            | (Self::Ignored { .. }, Self::Ignored { .. }) => true,
            _ => false,
        }
    }

    /// Whether looking for its cause may harm a server and its other users.
    pub fn is_harmful(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Ignored { .. })
    }

    /// The words of a table: `refused`, `slow`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Slow { .. } => "slow",
            Self::Hangs { .. } => "hangs",
            Self::Crashes { .. } => "crashes",
            Self::Ignored { .. } => "ignored",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status, message } => {
                write!(f, "{status} \"{}\"", printable_message(first_line(message)))
            }
            Self::Slow { ms, without_ms } => write!(
                f,
                "the first token takes {}, without the constraint {}",
                time(*ms),
                time(*without_ms)
            ),
            Self::Hangs { limit_s } => write!(f, "no answer within {limit_s} s"),
            Self::Crashes { message } => write!(f, "{}", printable_message(message)),
            Self::Ignored { keyword } => write!(f, "answers break {keyword}"),
        }
    }
}

/// The first line of a message: the others often quote the request.
pub fn first_line(message: &str) -> &str {
    let mut lines = message.lines().map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

/// `0.42 ms`, `12 ms`, `13.2 s`.
pub fn time(ms: f64) -> String {
    match ms {
        ms if ms >= 1000.0 => format!("{:.1} s", ms / 1000.0),
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// Whether two messages have the same words. Of a list, such as of keywords, one may have a part: `else,
/// if, then` and `then`.
fn has_same_words(message: &str, other: &str) -> bool {
    let [message, other] = [message, other].map(normalised);
    let [units, others] = [&message, &other].map(|text| lists(text));
    let mut pairs = units.iter().zip(&others);
    let is_part = |one: &[&str], other: &[&str]| one.iter().all(|word| other.contains(word));
    units.len() == others.len()
        && pairs.all(|(one, other)| is_part(one, other) || is_part(other, one))
}

/// The words of a text; those between which there are commas are one list.
fn lists(text: &str) -> Vec<Vec<&str>> {
    let mut found: Vec<Vec<&str>> = Vec::new();
    let mut is_open = false;
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches(',');
        match found.last_mut().filter(|_| is_open) {
            Some(list) => list.push(bare),
            None => found.push(vec![bare]),
        }
        is_open = word.ends_with(',');
    }
    found
}

/// A message without what quotes the request: texts in quotes, numbers, lists and objects.
fn normalised(message: &str) -> String {
    static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r##""[^"]*"|'[^']*'|`[^`]*`|\{.*\}|\[.*\]|\([^()]*\)|#?/[\w/~$.-]+|#|[\w.-]*\d[\w.-]*"##;
        Regex::new(pattern).expect("the expression is fixed and well formed")
    });
    // Other lines quote the request.
    let mut lines = message.lines().map(str::trim);
    let error = lines.find(|line| line.starts_with("error:"));
    let ends = [first_line(message), error.unwrap_or_default()].join(" ");
    let text = QUOTED.replace_all(&ends, "_").to_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(COMPARED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_same_if_they_differ_in_what_they_quote() {
        let refused = |message: &str| Failure::Refused {
            status: 400,
            message: message.to_owned(),
        };
        let a = refused("maxLength 10000 of 'prompt' is too large: {\"a\": [1]}");
        assert!(a.is_same(&refused(
            "maxLength 2000 of 'v' is too large: {\"type\": 1}"
        )));
        assert!(!a.is_same(&refused("minLength 2000 of 'v' is too large")));
        assert!(!a.is_same(&Failure::Hangs { limit_s: 1.0 }));
        let sglang = |place: &str, keywords: &str| {
            refused(&format!(
                "at {place} is not supported: keyword(s) {keywords} would be ignored"
            ))
        };
        let list = sglang("#", "else, if, then");
        assert!(list.is_same(&sglang("#/properties/a", "then")));
        assert!(sglang("#/then", "else, then").is_same(&list));
        assert!(!list.is_same(&sglang("#", "not")) && !list.is_same(&sglang("#", "then, not")));
        let slow = Failure::Slow {
            ms: 13_000.0,
            without_ms: 2.0,
        };
        assert!(slow.is_same(&Failure::Hangs { limit_s: 60.0 }));
        assert_eq!(
            slow.to_string(),
            "the first token takes 13.0 s, without the constraint 2.0 ms"
        );
        assert_eq!(a.word(), "refused");
        assert!(slow.is_harmful() && !a.is_harmful());
    }
}
