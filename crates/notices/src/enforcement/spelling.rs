//! JSON formatting of a server: white space, member order and escaping of non-ASCII characters. All
//! formats are valid, but runs with different formats are not comparable.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use sobench_judge::free_choices::FreeChoices;
pub use sobench_judge::free_choices::{MemberOrder, NonAscii, WhiteSpace};

/// The format of one constrained answer.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Spelling {
    pub white_space: WhiteSpace,
    pub member_order: MemberOrder,
    pub non_ascii: NonAscii,
    /// The answer itself.
    pub answer: String,
}

impl Spelling {
    /// Reads the format from a valid answer. `declared` are its member names in schema order. An
    /// answer that is not JSON has no format that is known.
    pub fn from_answer(answer: &str, declared: &[String]) -> Self {
        let members = declared.iter().map(|name| (name.clone(), json!({})));
        let schema = json!({"properties": Value::Object(members.collect())});
        let choices = FreeChoices::new(answer, Some(&schema), None);
        Self {
            white_space: choices
                .as_ref()
                .map_or(WhiteSpace::Mixed, |choices| choices.white_space),
            member_order: choices
                .as_ref()
                .and_then(|choices| choices.member_order)
                .unwrap_or(MemberOrder::Other),
            // The probe has a non-ASCII character.
            non_ascii: choices
                .and_then(|choices| choices.non_ascii)
                .unwrap_or(NonAscii::Escaped),
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
