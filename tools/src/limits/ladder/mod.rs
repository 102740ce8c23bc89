//! The ladders: constraints of one shape that grow in one dimension. One file and one line of the
//! registry for each.

mod enum_size;
mod grammar_size;
mod max_items;
mod max_length;
mod nesting_depth;
mod one_of_depth;
mod one_of_width;
mod properties;
mod ref_chain;
mod regex_repeats;
mod regex_size;
mod tools;

use sobench_core::constraint::{Constraint, ConstraintKind, GrammarDialect};
use sobench_core::registry;

registry! {
    /// A ladder, named as in `--ladder`.
    pub enum LadderKind is "ladder" with LadderSpec {
        NestingDepth => nesting_depth::SPEC,
        OneOfDepth => one_of_depth::SPEC,
        OneOfWidth => one_of_width::SPEC,
        EnumSize => enum_size::SPEC,
        MaxItems => max_items::SPEC,
        MaxLength => max_length::SPEC,
        Properties => properties::SPEC,
        RefChain => ref_chain::SPEC,
        RegexSize => regex_size::SPEC,
        RegexRepeats => regex_repeats::SPEC,
        GrammarSize => grammar_size::SPEC,
        Tools => tools::SPEC,
    }
}

/// A ladder.
pub struct LadderSpec {
    pub name: &'static str,
    /// Before a size in summaries: "enum" in "largest enum 10,000".
    pub label: &'static str,
    /// What a size is, for tables and the axes of charts.
    pub unit: &'static str,
    /// From small to large.
    pub sizes: &'static [u64],
    pub(super) kind: ConstraintKind,
    /// The constraint of a size. The nonce, of letters and digits, makes it different from all others.
    pub(super) build: fn(u64, &str, GrammarDialect) -> Payload,
}

/// A constraint to send.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Payload {
    /// A JSON Schema as text: its nesting may exceed the limits of JSON libraries.
    SchemaText(String),
    Constraint(Constraint),
}

/// Powers of two.
const DOUBLING: &[u64] = &[
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192,
];

/// Steps of a factor of about three, for bounds.
const TRIPLING: &[u64] = &[
    1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000,
];

/// An object with one member, whose name is the nonce.
pub(super) fn object_with(nonce: &str, member: &str) -> Payload {
    Payload::SchemaText(format!(
        r#"{{"type":"object","properties":{{"{nonce}":{member}}},"required":["{nonce}"],"additionalProperties":false}}"#
    ))
}

/// A word of eight digits, different for each index.
fn word(index: u64) -> String {
    // Multiplication by an odd number is a permutation.
    let hash = u32::try_from(index & 0xffff_ffff)
        .unwrap_or_default()
        .wrapping_mul(0x9E37_79B1);
    format!("{hash:08x}")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn constraints_of_every_ladder_are_well_formed_and_grow() {
        for ladder in LadderKind::ALL {
            let spec = ladder.spec();
            assert!(spec.sizes.is_sorted() && spec.sizes.len() >= 8, "{ladder}");
            let mut bytes = 0;
            for size in spec.sizes.iter().take(4) {
                for notation in [GrammarDialect::Lark, GrammarDialect::Ebnf] {
                    let text = match (spec.build)(*size, "n0nce", notation) {
                        Payload::SchemaText(text) => {
                            let schema: Value = serde_json::from_str(&text)
                                .unwrap_or_else(|error| panic!("{ladder}: {error}: {text}"));
                            let schema_ok = jsonschema::draft202012::meta::validate(&schema);
                            assert!(schema_ok.is_ok(), "{ladder}: {text}");
                            assert_eq!(spec.kind, ConstraintKind::JsonSchema, "{ladder}");
                            text
                        }
                        Payload::Constraint(constraint) => {
                            assert_eq!(spec.kind.name(), constraint.kind(), "{ladder}");
                            serde_json::to_string(&constraint).unwrap()
                        }
                    };
                    assert!(text.contains("n0nce"), "{ladder}: {text}");
                    assert!(text.len() >= bytes, "{ladder}");
                    bytes = text.len();
                }
            }
        }
    }
}
