//! Nonces of canary requests: a text of 64 random bits that the constraint of one request has, at
//! the start and at the end of its language.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::constraint::Constraint;

/// Start of a nonce in constraints and answers. 16 hexadecimal digits follow.
pub const NONCE_PREFIX: &str = "cn-";

/// Hexadecimal digits of a nonce.
const DIGITS: usize = 16;

/// Bytes of a grammar before its nonce: the start of its first rule.
const MAX_BYTES_BEFORE: usize = 32;

/// A nonce. Its text is `cn-` and 16 hexadecimal digits.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(u64);

impl Nonce {
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The nonce of the constraint of a canary; `None` for other constraints.
    pub fn from_constraint(constraint: &Constraint) -> Option<Self> {
        let text = if let Some(schema) = constraint.schema() {
            let members = schema.get("properties")?.as_object()?;
            members.values().next()?.get("const")?.as_str()?
        } else if let Some((_, text)) = constraint.grammar() {
            let end = MAX_BYTES_BEFORE.min(text.len());
            let at = text.as_bytes()[..end]
                .windows(NONCE_PREFIX.len())
                .position(|window| window == NONCE_PREFIX.as_bytes())?;
            &text[at..]
        } else if let Some(choices) = constraint.choices() {
            choices.first()?
        } else {
            constraint.regex()?
        };
        Self::at_start(text)
    }

    /// The nonces in a text with their offsets.
    pub fn find_all(text: &str) -> impl Iterator<Item = (usize, Self)> {
        text.match_indices(NONCE_PREFIX)
            .filter_map(|(at, _)| Some((at, Self::at_start(&text[at..])?)))
    }

    /// Its 16 digits.
    pub fn digits(self) -> String {
        format!("{:016x}", self.0)
    }

    fn at_start(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(NONCE_PREFIX)?.get(..DIGITS)?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_nonce = digits.bytes().all(is_digit);
        is_nonce.then(|| u64::from_str_radix(digits, 16).ok().map(Self))?
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NONCE_PREFIX}{:016x}", self.0)
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> Self {
        nonce.to_string()
    }
}

impl TryFrom<String> for Nonce {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::at_start(&text)
            .filter(|nonce| nonce.to_string() == text)
            .ok_or_else(|| format!("not a nonce: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::constraint::GrammarDialect;

    const TEXT: &str = "cn-00000000000000ff";

    #[test]
    fn a_nonce_is_read_from_every_kind_of_canary() {
        let grammar = |text: String| Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text: text.into(),
        };
        for constraint in [
            Constraint::JsonSchema(Arc::new(json!({"properties": {"a": {"const": TEXT}}}))),
            Constraint::Regex(format!("{TEXT} [a-z]+").into()),
            Constraint::Choice(vec![format!("{TEXT} a")].into()),
            grammar(format!("root ::= \"{TEXT}\"")),
        ] {
            let nonce = Nonce::from_constraint(&constraint);
            assert_eq!(nonce, Some(Nonce::new(255)), "{constraint:?}");
        }
        for constraint in [
            Constraint::JsonSchema(Arc::new(json!({"properties": {"a": {"const": "cn-0"}}}))),
            Constraint::JsonSchema(Arc::new(json!(true))),
            Constraint::Regex("cn-00000000000000FF".into()),
            Constraint::Choice(vec!["a".to_owned()].into()),
            grammar("root ::= \"é\"".repeat(9)),
        ] {
            assert_eq!(Nonce::from_constraint(&constraint), None, "{constraint:?}");
        }
    }

    #[test]
    fn nonces_are_found_in_texts() {
        let text = format!("é {TEXT} cn-12 {TEXT}0");
        let found: Vec<usize> = Nonce::find_all(&text).map(|(at, _)| at).collect();
        assert_eq!(found, [3, 29]);
        let written = serde_json::to_string(&Nonce::new(255)).unwrap();
        assert_eq!(written, format!("\"{TEXT}\""));
        assert_eq!(
            serde_json::from_str::<Nonce>(&written).unwrap(),
            Nonce::new(255)
        );
        serde_json::from_str::<Nonce>("\"cn-00000000000000ff0\"").unwrap_err();
    }
}
