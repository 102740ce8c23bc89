//! Simplifies expressions, so that written grammars have no needless parentheses.

use super::super::syntax::Expression;

/// Flattens sequences and choices, joins adjacent texts, and removes empty parts without effect.
///
/// The empty text remains as an empty sequence, alone or as an alternative; it is never repeated.
pub(super) fn simplify(expression: Expression) -> Expression {
    match expression {
        Expression::Text(text) if text.is_empty() => Expression::empty(),
        Expression::Sequence(parts) => {
            let mut flat = Vec::new();
            for part in parts {
                append(&mut flat, simplify(part));
            }
            Expression::sequence(flat)
        }
        Expression::Choice(parts) => {
            let mut flat: Vec<Expression> = Vec::new();
            let mut has_empty = false;
            for part in parts {
                match simplify(part) {
                    Expression::Choice(inner) => {
                        for part in inner {
                            has_empty |= add_alternative(&mut flat, part, has_empty);
                        }
                    }
                    part => has_empty |= add_alternative(&mut flat, part, has_empty),
                }
            }
            Expression::choice(flat)
        }
        Expression::Repeat { body, least, most } => match (simplify(*body), least, most) {
            (_, _, Some(0)) => Expression::empty(),
            (body, 1, Some(1)) => body,
            (body, ..) if body == Expression::empty() => body,
            (body, least, most) => body.repeat(least, most),
        },
        Expression::Terminal(body) => simplify(*body),
        plain @ (Expression::Text(_) | Expression::Class(_) | Expression::Reference(_)) => plain,
    }
}

fn append(flat: &mut Vec<Expression>, part: Expression) {
    match (flat.last_mut(), part) {
        (_, Expression::Sequence(inner)) => inner.into_iter().for_each(|part| append(flat, part)),
        (Some(Expression::Text(text)), Expression::Text(more)) => text.push_str(&more),
        (_, part) => flat.push(part),
    }
}

/// Adds an alternative unless it is a second empty one; returns whether it was empty.
fn add_alternative(flat: &mut Vec<Expression>, part: Expression, has_empty: bool) -> bool {
    let is_empty = part == Expression::empty();
    if !(is_empty && has_empty) {
        flat.push(part);
    }
    is_empty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simplification_removes_wrappers() {
        let text = |text: &str| Expression::Text(text.to_owned());
        let (empty, a, ab) = (Expression::empty, || text("a"), || text("ab"));
        for (long, short) in [
            (
                Expression::Sequence(vec![
                    a(),
                    empty(),
                    Expression::Sequence(vec![text("b"), empty()]),
                ]),
                ab(),
            ),
            (
                Expression::Choice(vec![
                    a(),
                    Expression::Choice(vec![empty(), text("b")]),
                    empty(),
                ]),
                Expression::Choice(vec![a(), empty(), text("b")]),
            ),
            (Expression::Terminal(Box::new(a())).repeat(1, Some(1)), a()),
            (a().repeat(0, Some(0)), empty()),
            (text("").repeat(0, None), empty()),
            (
                Expression::Sequence(vec![a().repeat(2, None), text("b")]),
                Expression::Sequence(vec![a().repeat(2, None), text("b")]),
            ),
        ] {
            assert_eq!(simplify(long), short);
        }
    }
}
