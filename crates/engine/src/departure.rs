//! Departures from a constraint's meaning that an engine's own documentation declares. Each engine
//! lists its own in its `SPEC`. A finding that one of them explains is no error, and is counted
//! apart.
//!
//! A departure that is everywhere known and nowhere documented is not listed: nobody can rely on
//! it.

use serde::{Deserialize, Serialize};

use super::EngineName;

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
    /// Every respect.
    pub const ALL: [Self; 10] = [
        Self::MemberOrder,
        Self::OuterWhiteSpace,
        Self::WhiteSpace,
        Self::Escapes,
        Self::Characters,
        Self::AdditionalProperties,
        Self::Numbers,
        Self::CanonicalTokens,
        Self::UnlistedKeyword,
        Self::References,
    ];

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

/// A departure that an engine declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    pub departure: Departure,
    /// What the engine does.
    pub what: &'static str,
    /// The document that says so, and where in it.
    pub source: &'static str,
}

impl Declared {
    pub(super) const fn new(
        departure: Departure,
        what: &'static str,
        source: &'static str,
    ) -> Self {
        Self {
            departure,
            what,
            source,
        }
    }
}

impl EngineName {
    /// The departures that the engine declares.
    pub fn departures(self) -> &'static [Declared] {
        self.spec().departures
    }

    /// Whether it declares a departure.
    pub fn declares(self, departure: Departure) -> bool {
        self.departures()
            .iter()
            .any(|declared| declared.departure == departure)
    }

    /// The departure that explains why a text that breaks `keyword` is let through.
    pub fn departure_for_keyword(self, keyword: &str) -> Option<Departure> {
        let is_keyword = keyword.chars().all(char::is_alphanumeric);
        let is_unlisted =
            is_keyword && !self.spec().listed_keywords.contains(&keyword) && keyword != "$ref";
        (is_unlisted && self.declares(Departure::UnlistedKeyword))
            .then_some(Departure::UnlistedKeyword)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_has_a_source_and_is_declared_once() {
        for engine in EngineName::ALL {
            for (place, line) in engine.departures().iter().enumerate() {
                assert!(!line.source.is_empty() && !line.what.is_empty(), "{line:?}");
                assert!(
                    !engine.departures()[..place]
                        .iter()
                        .any(|it| it.departure == line.departure),
                    "{engine} {line:?}"
                );
            }
            let lists_keywords = !engine.spec().listed_keywords.is_empty();
            assert_eq!(
                engine.declares(Departure::UnlistedKeyword),
                lists_keywords,
                "{engine}"
            );
        }
        assert!(EngineName::Guidance.declares(Departure::MemberOrder));
        assert_eq!(EngineName::Auto.departures(), []);
    }

    #[test]
    fn only_an_unlisted_keyword_has_no_effect_and_only_where_that_is_declared() {
        for (engine, keyword, expected) in [
            (
                EngineName::Outlines,
                "multipleOf",
                Some(Departure::UnlistedKeyword),
            ),
            (EngineName::Outlines, "maxLength", None),
            (EngineName::Outlines, "not_json", None),
            (EngineName::Xgrammar, "multipleOf", None),
        ] {
            assert_eq!(engine.departure_for_keyword(keyword), expected, "{keyword}");
        }
    }
}
