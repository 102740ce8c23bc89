//! The number of rules of a grammar, all of them alternatives of one.

use super::{LadderSpec, Payload, word};
use sobench_core::constraint::{Constraint, ConstraintKind, GrammarDialect};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "grammar-size",
    label: "grammar",
    unit: "rules of a grammar",
    sizes: &[1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000],
    kind: ConstraintKind::Grammar,
    build: |rules, nonce, dialect| {
        let (start, sign) = match dialect {
            GrammarDialect::Lark => ("start", ":"),
            GrammarDialect::Ebnf => ("root", "::="),
        };
        let names: Vec<String> = (0..rules).map(|index| format!("r{index}")).collect();
        let definitions: String = (0..rules)
            .map(|index| format!("r{index} {sign} \"{}\" \"x\"\n", word(index)))
            .collect();
        let text = format!(
            "{start} {sign} \"{nonce}\" any\nany {sign} {}\n{definitions}",
            names.join(" | ")
        );
        Payload::Constraint(Constraint::Grammar {
            dialect,
            text: text.into(),
        })
    },
};
