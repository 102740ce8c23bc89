//! Departures from a constraint's meaning that an engine's own documentation declares: the table, and where it says so. A finding that one
//! of them explains is no error, and is counted apart. Knows no library; what explains a finding is found out by `explain`.
//!
//! A departure that is everywhere known and nowhere documented is not in the table: nobody can rely on it.

use serde::{Deserialize, Serialize};

use crate::engine::EngineName;

/// In which respect an engine departs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Departure {
    /// Members come in the order of the schema.
    MemberOrder,
    /// No white space before the first byte and after the last.
    OuterWhiteSpace,
    /// At most one space between two tokens.
    WhiteSpace,
    /// Only some escapes in strings.
    Escapes,
    /// Not all the characters that a string can hold.
    Characters,
    /// No members and items that the schema does not name, whatever it says of others.
    AdditionalProperties,
    /// Only one way to spell a number.
    Numbers,
    /// Only the tokenizer's canonical tokens where text is forced.
    CanonicalTokens,
    /// A keyword that the library does not list as supported has no effect.
    UnlistedKeyword,
    /// References within one another are followed to some depth, and what refers on is left out.
    References,
}

impl Departure {
    /// The name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemberOrder => "member order",
            Self::OuterWhiteSpace => "outer white space",
            Self::WhiteSpace => "white space",
            Self::Escapes => "escapes",
            Self::Characters => "characters",
            Self::AdditionalProperties => "additional properties",
            Self::Numbers => "numbers",
            Self::CanonicalTokens => "canonical tokens",
            Self::UnlistedKeyword => "unlisted keyword",
            Self::References => "references",
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Declared {
    pub engine: EngineName,
    pub departure: Departure,
    /// What the engine does.
    pub what: &'static str,
    /// The document that says so, and where in it.
    pub source: &'static str,
}

const fn declared(engine: EngineName, departure: Departure, what: &'static str, source: &'static str) -> Declared {
    Declared { engine, departure, what, source }
}

/// Everything that is declared, by engine.
pub const DECLARED: [Declared; 14] = [
    declared(
        EngineName::Guidance,
        Departure::MemberOrder,
        "members come in the order of `properties`, then of `required`, then all others",
        "llguidance, docs/json_schema.md, Property order",
    ),
    declared(
        EngineName::Guidance,
        Departure::OuterWhiteSpace,
        "no white space before the first or after the last byte",
        "llguidance, docs/json_schema.md, Whitespace handling",
    ),
    declared(
        EngineName::Guidance,
        Departure::Escapes,
        "after a backslash only one of nrbtf\\\"u, and \\u only for characters that have no other spelling",
        "llguidance, docs/json_schema.md, json_allowed_escapes; JsonCompileOptions::json_allow_general_unicode_escapes",
    ),
    declared(
        EngineName::Guidance,
        Departure::CanonicalTokens,
        "where the grammar forces bytes, only the tokenizer's own tokens for them are allowed",
        "llguidance, LLGuidanceOptions::no_forcing",
    ),
    declared(
        EngineName::Xgrammar,
        Departure::MemberOrder,
        "members come in the order of the schema unless any_order is set",
        "xgrammar, Grammar.from_json_schema, any_order",
    ),
    declared(
        EngineName::Xgrammar,
        Departure::AdditionalProperties,
        "with strict_mode no member or item that the schema does not name",
        "xgrammar, Grammar.from_json_schema, strict_mode",
    ),
    declared(
        EngineName::XgrammarCpp,
        Departure::MemberOrder,
        "members come in the order of the schema unless any_order is set",
        "xgrammar, Grammar.from_json_schema, any_order",
    ),
    declared(
        EngineName::XgrammarCpp,
        Departure::AdditionalProperties,
        "with strict_mode no member or item that the schema does not name",
        "xgrammar, Grammar.from_json_schema, strict_mode",
    ),
    declared(
        EngineName::Outlines,
        Departure::WhiteSpace,
        "at most one space between two tokens, and none before the first and after the last",
        "outlines-core, json_schema::types::WHITESPACE",
    ),
    declared(EngineName::Outlines, Departure::Escapes, "no \\u escapes", "outlines-core, json_schema::types::STRING_INNER"),
    declared(
        EngineName::Outlines,
        Departure::Characters,
        "in strings no character that has only a \\u escape, and none from U+007F to U+009F",
        "outlines-core, json_schema::types::STRING_INNER",
    ),
    declared(
        EngineName::Outlines,
        Departure::Numbers,
        "an integer has neither point nor exponent, and an exponent has a sign",
        "outlines-core, json_schema::types::INTEGER and NUMBER",
    ),
    declared(
        EngineName::Outlines,
        Departure::UnlistedKeyword,
        "only the keywords that are listed have an effect",
        "outlines-core, json_schema, Supported constraints",
    ),
    declared(
        EngineName::Outlines,
        Departure::References,
        "references are followed to a depth of 3, and what refers on is left out",
        "outlines-core, json_schema, Recursion",
    ),
];

/// Keywords that outlines-core lists as supported, those of its own not among them.
const OUTLINES_KEYWORDS: [&str; 19] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "allOf",
    "anyOf",
    "oneOf",
];

/// The departures that an engine declares.
pub fn of(engine: EngineName) -> impl Iterator<Item = Departure> {
    DECLARED.iter().filter(move |it| it.engine == engine).map(|it| it.departure)
}

/// The departure that explains why a text that breaks `keyword` is let through.
pub(super) fn for_keyword(engine: EngineName, keyword: &str) -> Option<Departure> {
    let is_keyword = keyword.chars().all(char::is_alphanumeric);
    let is_unlisted = is_keyword && !OUTLINES_KEYWORDS.contains(&keyword) && keyword != "$ref";
    of(engine).find(|it| *it == Departure::UnlistedKeyword && is_unlisted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_has_a_source_and_is_declared_once() {
        for (place, line) in DECLARED.iter().enumerate() {
            assert!(!line.source.is_empty() && !line.what.is_empty(), "{line:?}");
            assert!(!DECLARED[..place].iter().any(|it| (it.engine, it.departure) == (line.engine, line.departure)), "{line:?}");
        }
        assert!(of(EngineName::Guidance).any(|it| it == Departure::MemberOrder));
        assert_eq!(of(EngineName::Auto).count(), 0);
    }

    #[test]
    fn only_an_unlisted_keyword_has_no_effect_and_only_where_that_is_declared() {
        for (engine, keyword, expected) in [
            (EngineName::Outlines, "multipleOf", Some(Departure::UnlistedKeyword)),
            (EngineName::Outlines, "maxLength", None),
            (EngineName::Outlines, "not_json", None),
            (EngineName::Xgrammar, "multipleOf", None),
        ] {
            assert_eq!(for_keyword(engine, keyword), expected, "{keyword}");
        }
    }
}
