//! Makes a finding as small as it stays one: keywords and members of the schema are taken away, and pieces of the text, as long as an error of
//! the same kind is left. Knows no corpus and no file.
//!
//! Every try compiles the constraint anew and walks along the text, so that what is left was seen, and not concluded.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::along::{Ground, Text, along};
use super::consistency;
use super::contender::{Bench, Contender};
use super::finding::{Finding, Origin, Proof};
use super::judges::{Judged, Judges};
use super::prover::{Tools, Watch};
use super::syntax::Syntax;
use super::witness::{self, Standing};
use crate::constraint::Constraint;
use crate::engine::TokenId;
use crate::mask::clock::Stopwatch;
use crate::random::PythonRandom;

/// Masks of one try.
const MAX_MASKS: u64 = 4096;

/// Time for one finding, which decides how small it gets, and never whether it stands.
const MAX_TIME: Duration = Duration::from_secs(4);

/// Times that all pieces are gone through again after something was taken away.
const MAX_ROUNDS: usize = 8;

/// A finding with what it is about.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::mask) struct Case {
    pub(in crate::mask) constraint: Constraint,
    pub(in crate::mask) finding: Finding,
}

/// The case made smaller in at most so many tries; `None` where the finding cannot be found again, or does not stand when it is checked.
pub(in crate::mask) fn shrink(
    engine: &Bench,
    tools: &Tools<'_>,
    case: Case,
    tries: usize,
    watch: &mut dyn Watch,
) -> Option<Case> {
    let kind = Kind::of(&case.finding);
    let mut shrinker = Shrinker { engine, tools, kind, left: tries, watched: Stopwatch::start(), watch };
    let mut text = shrinker.text(&case.finding);
    let mut constraint = case.constraint.clone();
    let mut best = shrinker.found(&constraint, &text);
    if best.is_some() {
        for _ in 0..MAX_ROUNDS {
            let before = shrinker.left;
            let smaller_schema = shrinker.schema(&mut constraint, &text, &mut best);
            let smaller_text = shrinker.shorter(&constraint, &mut text, &mut best);
            if !(smaller_schema || smaller_text) || !shrinker.is_on() || shrinker.left == before {
                break;
            }
        }
    }
    let smallest = best.map(|finding| Case { constraint, finding });
    [smallest, Some(case)].into_iter().flatten().find(|case| stands(engine, tools, case) == Standing::Holds)
}

/// Checks a case against an engine anew.
pub(in crate::mask) fn stands(engine: &Bench, tools: &Tools<'_>, case: &Case) -> Standing {
    let constraint = Arc::new(case.constraint.clone());
    witness::check(&*engine.engine, &constraint, &case.finding, tools.vocabulary, tools.sorted)
}

/// What a smaller finding has to have in common with the first one.
struct Kind {
    strict: bool,
    proof: Proof,
    finding: Finding,
}

impl Kind {
    fn of(finding: &Finding) -> Self {
        let strict = matches!(finding.proof, Proof::RefusesToken | Proof::RefusesEnd | Proof::DiffersStrict);
        Self { strict, proof: finding.proof, finding: finding.clone() }
    }

    /// Whether another finding is of the kind. What two engines differ in is found by the engine alone once the text is known.
    fn is(&self, other: &Finding) -> bool {
        let is_proof = match self.proof {
            Proof::DiffersStrict => matches!(other.proof, Proof::RefusesToken | Proof::RefusesEnd),
            Proof::DiffersLoose => other.proof == Proof::AllowsEnd,
            proof => other.proof == proof,
        };
        is_proof && other.reading == self.finding.reading && other.breaks == self.finding.breaks
    }
}

struct Shrinker<'a> {
    engine: &'a Bench,
    tools: &'a Tools<'a>,
    kind: Kind,
    left: usize,
    watched: Stopwatch,
    watch: &'a mut dyn Watch,
}

impl Shrinker<'_> {
    /// Whether there are tries left, and time.
    fn is_on(&self) -> bool {
        self.left > 0 && self.watched.elapsed() < MAX_TIME
    }

    /// The bytes that are walked along: the text that a proof rests on, or what was committed.
    fn text(&self, finding: &Finding) -> Vec<u8> {
        match (&finding.text, finding.proof) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, _) => self.tools.vocabulary.decode(&finding.prefix),
        }
    }

    /// A finding of the kind on this constraint along this text.
    fn found(&mut self, constraint: &Constraint, bytes: &[u8]) -> Option<Finding> {
        self.left = self.left.saturating_sub(1);
        self.watch.at(Some(self.engine.name));
        let constraint = Arc::new(constraint.clone());
        let vocabulary = self.tools.vocabulary;
        let text = std::str::from_utf8(bytes).ok();
        // What was committed is kept as it was where it is the very same text: other tokens may lead elsewhere.
        let same = vocabulary.decode(&self.kind.finding.prefix) == bytes;
        let tokens: Vec<TokenId> = if same { self.kind.finding.prefix.clone() } else { vocabulary.encode_exactly(text?)? };
        let mut judges = Judges::new(Arc::clone(&constraint));
        let matching = text.filter(|text| self.kind.strict && judges.judge(text) == Judged::Matches);
        // Judging is cheap beside compiling.
        let is_hopeless = match self.kind.proof {
            _ if self.kind.strict => matching.is_none(),
            Proof::AllowsEnd | Proof::DiffersLoose => !matches!(judges.judge_bytes(bytes), Judged::Breaks { .. }),
            _ => false,
        };
        if is_hopeless {
            return None;
        }
        let contender = Contender::new(self.engine, &constraint);
        let grammar = contender.grammar().ok()?;
        if self.kind.proof == Proof::Contradicts {
            return self.contradiction(&contender, &constraint, &tokens);
        }
        let mut ground = Ground { vocabulary, sorted: self.tools.sorted, judges, syntax: Syntax::of(&constraint) };
        let text = Text { bytes, tokens: &tokens, matching, origin: Origin::Other };
        let walked = along(&*grammar, &mut ground, &contender.explainer(None).ok()?, &text, MAX_MASKS).ok()?;
        walked.findings.into_iter().find(|finding| self.kind.is(finding))
    }

    fn contradiction(&self, contender: &Contender, constraint: &Constraint, tokens: &[TokenId]) -> Option<Finding> {
        let (vocabulary, grammar) = (self.tools.vocabulary, contender.grammar().ok()?);
        let (mut matcher, mask) = consistency::stand(&*grammar, vocabulary, tokens, &mut 0).ok()??;
        let (mut all, _) = consistency::here(&mut *matcher, vocabulary, &mut PythonRandom::new(0)).ok()?;
        all.extend(consistency::again(&*contender.engine, constraint, &*grammar, vocabulary, (tokens, &mask), true).ok()?.0);
        let (contradiction, token) = all.into_iter().find(|(it, _)| Some(*it) == self.kind.finding.contradiction)?;
        let finding = Finding::new(Proof::Contradicts, tokens, token, Origin::Other);
        Some(Finding { contradiction: Some(contradiction), ..finding })
    }

    /// Takes pieces of the schema away; whether it could.
    fn schema(&mut self, constraint: &mut Constraint, text: &[u8], best: &mut Option<Finding>) -> bool {
        let Constraint::JsonSchema(schema) = &*constraint else { return false };
        let mut schema = Value::clone(schema);
        let mut is_smaller = false;
        let mut next = 0;
        while self.is_on() {
            let Some(candidate) = without_piece(&schema, next) else { break };
            let tried = Constraint::JsonSchema(Arc::new(candidate.clone()));
            match self.found(&tried, text) {
                Some(finding) => {
                    (schema, *constraint, *best, is_smaller) = (candidate, tried, Some(finding), true);
                }
                None => next += 1,
            }
        }
        is_smaller
    }

    /// Takes pieces of the text away; whether it could.
    fn shorter(&mut self, constraint: &Constraint, text: &mut Vec<u8>, best: &mut Option<Finding>) -> bool {
        let mut is_smaller = false;
        let mut next = 0;
        let is_json = matches!(constraint, Constraint::JsonSchema(_) | Constraint::JsonObject(_));
        while self.is_on() {
            let piece = if is_json { pieces(text).into_iter().nth(next) } else { chunks(text).nth(next) };
            let Some(piece) = piece else { break };
            let candidate = [&text[..piece.start], &text[piece.end..]].concat();
            match self.found(constraint, &candidate) {
                Some(finding) => (*text, *best, is_smaller) = (candidate, Some(finding), true),
                None => next += 1,
            }
        }
        is_smaller
    }
}

/// The schema without its piece of this number, the outermost first: a member, an item, or all that an object or array holds.
fn without_piece(schema: &Value, number: usize) -> Option<Value> {
    let mut changed = schema.clone();
    let mut left = number;
    let mut level: Vec<&mut Value> = vec![&mut changed];
    while !level.is_empty() {
        let mut inner: Vec<&mut Value> = Vec::new();
        for value in level {
            match value {
                Value::Object(members) => {
                    if left < members.len() {
                        let name = members.keys().nth(left).cloned()?;
                        members.shift_remove(&name);
                        return Some(changed);
                    }
                    left -= members.len();
                    inner.extend(members.values_mut());
                }
                Value::Array(items) => {
                    if left < items.len() {
                        items.remove(left);
                        return Some(changed);
                    }
                    left -= items.len();
                    inner.extend(items.iter_mut());
                }
                _ => {}
            }
        }
        level = inner;
    }
    None
}

/// Pieces of a JSON text that can be taken away with the comma beside them, the longest first: members, items, halves of what strings hold.
fn pieces(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut pieces = Vec::new();
    // Where the member or item at hand began, for every bracket that is open.
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                let end = string_end(text, at);
                let inner = at + 1..end.saturating_sub(1).max(at + 1);
                if inner.len() > 1 {
                    let middle = inner.start + inner.len() / 2;
                    pieces.extend([inner.start..middle, middle..inner.end]);
                }
                if !inner.is_empty() {
                    pieces.push(inner);
                }
                at = end;
                continue;
            }
            b'{' | b'[' => open.push(at + 1),
            byte @ (b'}' | b']' | b',') => {
                if let Some(start) = open.last_mut() {
                    if at > *start {
                        // With the comma after it, or, of the last one, the one before it.
                        let before = usize::from(byte != b',' && text[*start - 1] == b',');
                        pieces.push(*start - before..at + usize::from(byte == b','));
                    }
                    *start = at + 1;
                }
                if byte != b',' {
                    open.pop();
                }
            }
            b' ' | b'\n' | b'\r' | b'\t' => pieces.push(at..at + 1),
            _ => {}
        }
        at += 1;
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
    pieces
}

/// Pieces of any text: halves, quarters and so on, down to single bytes.
fn chunks(text: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let all = text.len();
    let sizes = std::iter::successors(Some(all.div_ceil(2)), |size| (*size > 1).then(|| size / 2)).filter(move |_| all > 0);
    sizes.flat_map(move |size| (0..all).step_by(size).map(move |start| start..(start + size).min(all)))
}

/// The place after a string's closing quote; the text's end where it has none.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'"' => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_loses_one_piece_at_a_time_from_the_outside() {
        let schema = json!({"a": {"b": 1}, "c": [2, 3]});
        let all: Vec<String> = (0..).map_while(|number| without_piece(&schema, number)).map(|it| it.to_string()).collect();
        assert_eq!(
            all,
            [
                r#"{"c":[2,3]}"#,
                r#"{"a":{"b":1}}"#,
                r#"{"a":{},"c":[2,3]}"#,
                r#"{"a":{"b":1},"c":[3]}"#,
                r#"{"a":{"b":1},"c":[2]}"#,
            ]
        );
    }

    #[test]
    fn a_text_loses_members_items_and_parts_of_strings() {
        let text = br#"{"a":[1,2],"b":"x\"yz"}"#;
        let left =
            |piece: std::ops::Range<usize>| String::from_utf8([&text[..piece.start], &text[piece.end..]].concat()).unwrap();
        let all: Vec<String> = pieces(text).into_iter().map(left).collect();
        for expected in [
            r#"{"b":"x\"yz"}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":[2],"b":"x\"yz"}"#,
            r#"{"a":[1],"b":"x\"yz"}"#,
            r#"{"a":[1,2],"b":""}"#,
        ] {
            assert!(all.iter().any(|text| text == expected), "{expected} of {all:#?}");
        }
        assert_eq!(chunks(b"abc").collect::<Vec<_>>(), [0..2, 2..3, 0..1, 1..2, 2..3]);
        assert_eq!(chunks(b"").count(), 0);
        assert!(pieces(b"{\"a").iter().all(|piece| piece.end <= 3));
    }
}
