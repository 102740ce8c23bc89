//! JSON formatting of a server: white space, member order and escaping of non-ASCII characters. All
//! formats are valid, but runs with different formats are not comparable.

use serde::{Deserialize, Serialize};

/// The format of one constrained answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spelling {
    pub white_space: WhiteSpace,
    pub member_order: MemberOrder,
    pub non_ascii: NonAscii,
    /// The answer itself.
    pub answer: String,
}

/// White space between the tokens of the JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhiteSpace {
    /// None.
    Compact,
    /// One space after each comma and colon, and no other white space, as Python writes.
    Spaced,
    /// Line feeds.
    Lines,
    /// Another combination; the model chooses.
    Mixed,
}

/// The order of an object's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberOrder {
    /// The order in the schema.
    AsDeclared,
    Alphabetical,
    /// Another order; the model chooses.
    Other,
}

/// How a non-ASCII character is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonAscii {
    /// Unescaped.
    Raw,
    /// Escaped as `\u` and four digits.
    Escaped,
}

impl Spelling {
    /// Reads the format from a valid answer. `declared` are its member names in schema order.
    pub fn from_answer(answer: &str, declared: &[String]) -> Self {
        let mut positions: Vec<(Option<usize>, &String)> = declared
            .iter()
            .map(|name| (answer.find(&format!("\"{name}\"")), name))
            .collect();
        positions.sort();
        let order: Vec<&String> = positions.into_iter().map(|(_, name)| name).collect();
        let member_order = match order {
            order if order.iter().copied().eq(declared) => MemberOrder::AsDeclared,
            order if order.is_sorted() => MemberOrder::Alphabetical,
            _ => MemberOrder::Other,
        };
        Self {
            white_space: white_space(answer.trim()),
            member_order,
            non_ascii: if answer.is_ascii() {
                NonAscii::Escaped
            } else {
                NonAscii::Raw
            },
            answer: answer.to_owned(),
        }
    }

    /// A description for reports.
    pub fn description(&self) -> String {
        let white_space = match self.white_space {
            WhiteSpace::Compact => "no white space",
            WhiteSpace::Spaced => "spaces after commas and colons",
            WhiteSpace::Lines => "multiple lines",
            WhiteSpace::Mixed => "irregular white space",
        };
        let order = match self.member_order {
            MemberOrder::AsDeclared => "members in schema order",
            MemberOrder::Alphabetical => "members in alphabetical order",
            MemberOrder::Other => "members in another order",
        };
        let letters = match self.non_ascii {
            NonAscii::Raw => "non-ASCII characters unescaped",
            NonAscii::Escaped => "non-ASCII characters escaped",
        };
        format!("{white_space}; {order}; {letters}")
    }
}

/// Classifies the white space outside of strings.
fn white_space(answer: &str) -> WhiteSpace {
    let (mut in_string, mut escaped, mut previous) = (false, false, ' ');
    let (mut lines, mut spaces, mut separators, mut elsewhere) = (false, 0, 0, false);
    for character in answer.chars() {
        if in_string {
            in_string = character != '"' || escaped;
            escaped = character == '\\' && !escaped;
        } else {
            match character {
                '"' => in_string = true,
                ',' | ':' => separators += 1,
                ' ' if matches!(previous, ',' | ':') => spaces += 1,
                '\n' | '\r' => lines = true,
                other if other.is_whitespace() => elsewhere = true,
                _ => {}
            }
        }
        previous = character;
    }
    match (lines, elsewhere) {
        (true, _) => WhiteSpace::Lines,
        (false, false) if spaces == 0 => WhiteSpace::Compact,
        (false, false) if spaces == separators => WhiteSpace::Spaced,
        _ => WhiteSpace::Mixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_is_read_from_raw_text() {
        let declared = ["m", "z", "b"].map(str::to_owned);
        let check = |answer: &str, white_space, member_order, non_ascii| {
            let spelling = Spelling::from_answer(answer, &declared);
            assert_eq!(
                (
                    spelling.white_space,
                    spelling.member_order,
                    spelling.non_ascii
                ),
                (white_space, member_order, non_ascii),
                "{answer}"
            );
            assert_eq!(spelling.description().matches(';').count(), 2);
        };
        let (compact, spaced, declared_order) = (
            WhiteSpace::Compact,
            WhiteSpace::Spaced,
            MemberOrder::AsDeclared,
        );
        check(
            r#"{"m":"1, 2: 3","z":"ü","b":"x"}"#,
            compact,
            declared_order,
            NonAscii::Raw,
        );
        check(
            r#"{"m": "1", "z": "\u00fc", "b": "a\" b"}"#,
            spaced,
            declared_order,
            NonAscii::Escaped,
        );
        check(
            "{\n  \"b\": \"x\",\n  \"m\": \"1\",\n  \"z\": \"ü\"\n}",
            WhiteSpace::Lines,
            MemberOrder::Alphabetical,
            NonAscii::Raw,
        );
        check(
            r#"{ "z":"ü", "m": "1","b":"x"}"#,
            WhiteSpace::Mixed,
            MemberOrder::Other,
            NonAscii::Raw,
        );
        check(
            r#"{"m":"1", "z":"ü","b":"x"}"#,
            WhiteSpace::Mixed,
            declared_order,
            NonAscii::Raw,
        );
    }
}
