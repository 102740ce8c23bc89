//! How a server spells constrained JSON: white space, order of members, letters beyond ASCII. Pure.
//! A fact for the record, not a verdict: every spelling is valid, but runs under different ones are
//! not alike.

use serde::{Deserialize, Serialize};

/// How one constrained answer was spelt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spelling {
    pub white_space: WhiteSpace,
    pub member_order: MemberOrder,
    pub non_ascii: NonAscii,
    /// The answer that shows it.
    pub answer: String,
}

/// White space between the tokens of the JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhiteSpace {
    /// None.
    Compact,
    /// One space after each comma and colon, and nowhere else, as Python writes.
    Spaced,
    /// Line feeds.
    Lines,
    /// Something else: the model chose.
    Mixed,
}

/// The order of an object's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberOrder {
    /// As the schema declares them.
    AsDeclared,
    Alphabetical,
    /// Something else: the model chose.
    Other,
}

/// How a letter beyond ASCII is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonAscii {
    /// As it is.
    Raw,
    /// As `\u` with four digits.
    Escaped,
}

impl Spelling {
    /// Reads a valid answer to the question of spelling; `declared` are its member names in the
    /// schema's order.
    pub fn read(answer: &str, declared: &[String]) -> Self {
        let mut places: Vec<(Option<usize>, &String)> = declared
            .iter()
            .map(|name| (answer.find(&format!("\"{name}\"")), name))
            .collect();
        places.sort();
        let order: Vec<&String> = places.into_iter().map(|(_, name)| name).collect();
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

    /// In words.
    pub fn words(&self) -> String {
        let white_space = match self.white_space {
            WhiteSpace::Compact => "compact",
            WhiteSpace::Spaced => "spaces after commas and colons",
            WhiteSpace::Lines => "over several lines",
            WhiteSpace::Mixed => "white space of the model's choice",
        };
        let order = match self.member_order {
            MemberOrder::AsDeclared => "members as declared",
            MemberOrder::Alphabetical => "members in alphabetical order",
            MemberOrder::Other => "members in an order of their own",
        };
        let letters = match self.non_ascii {
            NonAscii::Raw => "letters beyond ASCII as they are",
            NonAscii::Escaped => "letters beyond ASCII escaped",
        };
        format!("{white_space}; {order}; {letters}")
    }
}

/// The white space outside strings.
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
                it if it.is_whitespace() => elsewhere = true,
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
    fn a_spelling_is_read_from_the_raw_text() {
        let declared = ["m", "z", "b"].map(str::to_owned);
        let check = |answer: &str, white_space, member_order, non_ascii| {
            let spelling = Spelling::read(answer, &declared);
            assert_eq!(
                (
                    spelling.white_space,
                    spelling.member_order,
                    spelling.non_ascii
                ),
                (white_space, member_order, non_ascii),
                "{answer}"
            );
            assert_eq!(spelling.words().matches(';').count(), 2);
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
