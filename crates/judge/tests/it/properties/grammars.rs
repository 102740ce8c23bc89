//! Our recogniser beside a second, independent one (the crate `earlgrey`), and beside all sentences
//! enumerated, on random grammars.

use std::cell::Cell;

use earlgrey::{EarleyParser, GrammarBuilder};
use sobench_core::constraint::GrammarDialect;
use sobench_grammar::{GrammarError, Membership, Recogniser, compile, convert};

use super::source::{self, Source};
use super::syntax::{LETTERS, Syntax};

/// Generated grammars.
const CASES: usize = 100;

/// Characters of the texts that are enumerated; there are 121 of up to four of three.
const LENGTH: usize = 4;

/// Sampled sentences of each grammar, each with a mutant.
const SAMPLES: usize = 4;

/// Longest sampled text, in characters: the second recogniser takes cubic time.
const MAX_SAMPLE_CHARS: usize = 16;

/// The second recogniser, over single characters.
struct Second(EarleyParser);

impl Second {
    fn new(syntax: &Syntax) -> Self {
        let productions = syntax.productions();
        let mut builder = GrammarBuilder::default();
        for (head, _) in &productions {
            builder.nonterm_try(head);
        }
        for letter in productions
            .iter()
            .flat_map(|(_, symbols)| symbols)
            .filter(|symbol| symbol.chars().count() == 1)
        {
            let wanted = letter.clone();
            builder.terminal_try(letter, move |found| found == wanted);
        }
        for (head, symbols) in &productions {
            let symbols: Vec<&str> = symbols.iter().map(String::as_str).collect();
            builder.rule_try(head, &symbols);
        }
        Self(EarleyParser::new(
            builder
                .into_grammar("start")
                .expect("every symbol is defined"),
        ))
    }

    fn accepts(&self, text: &str) -> bool {
        self.0.parse(text.chars().map(String::from)).is_ok()
    }
}

/// Our readings of one grammar: of both notations, and of each converted into the other.
fn ours(syntax: &Syntax) -> Result<Vec<(String, Recogniser)>, String> {
    let (lark, ebnf) = (GrammarDialect::Lark, GrammarDialect::Ebnf);
    let mut found = Vec::new();
    for (from, to) in [(lark, ebnf), (ebnf, lark)] {
        let text = syntax.written(from == lark);
        let compiled = compile(from, &text).map_err(|error| format!("{error}\n{text}"))?;
        found.push((text.clone(), compiled));
        match convert(from, to, &text) {
            Ok(converted) => {
                let compiled = compile(to, &converted.text)
                    .map_err(|error| format!("{error}\n{text}\n{}", converted.text))?;
                found.push((format!("{text}converted:\n{}", converted.text), compiled));
            }
            // A language without sentences cannot be written for every engine.
            Err(GrammarError::Unsupported { .. }) => {}
            Err(error) => return Err(format!("{error} on converting\n{text}")),
        }
    }
    Ok(found)
}

/// Every text of up to [`LENGTH`] letters.
fn texts() -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut longest = texts.clone();
    for _ in 0..LENGTH {
        longest = longest
            .iter()
            .flat_map(|text| LETTERS.map(|letter| format!("{text}{letter}")))
            .collect();
        texts.extend(longest.iter().cloned());
    }
    texts
}

/// One character changed, left out or put in.
fn mutant(text: &str, source: &mut Source) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let at = source.below(characters.len() + 1);
    let letter = source
        .pick(&LETTERS)
        .chars()
        .next()
        .expect("letters are not empty");
    match source.below(3) {
        0 => characters.insert(at, letter),
        1 if at < characters.len() => characters[at] = letter,
        _ if at < characters.len() => drop(characters.remove(at)),
        _ => {}
    }
    characters.into_iter().collect()
}

fn agree(
    source: &mut Source,
    sentences: &Cell<usize>,
    compared: &Cell<usize>,
) -> Result<(), String> {
    let syntax = Syntax::draw(source);
    let (second, ours) = (Second::new(&syntax), ours(&syntax)?);
    let enumerated = syntax.enumerate(LENGTH);
    for text in texts() {
        let member = enumerated.sentences.contains(&text);
        if second.accepts(&text) != member {
            return Err(format!(
                "earlgrey beside the enumeration ({member}): {text:?}\n{}",
                syntax.written(false)
            ));
        }
        let mut ends = text.char_indices().map(|(end, _)| end).chain([text.len()]);
        let viable = ends
            .rfind(|end| enumerated.beginnings.contains(&text[..*end]))
            .unwrap_or(0);
        let expected = if member {
            Membership::Member
        } else {
            Membership::NotMember { byte: viable }
        };
        let is_prefix = enumerated.beginnings.contains(&text);
        for (grammar, recogniser) in &ours {
            let found = recogniser.recognise(&text);
            if found != expected || recogniser.is_prefix(&text) != is_prefix {
                return Err(format!(
                    "{found:?} for {expected:?}, beginning: {is_prefix}: {text:?}\n{grammar}"
                ));
            }
        }
        sentences.set(sentences.get() + usize::from(member));
        compared.set(compared.get() + 1);
    }
    for _ in 0..SAMPLES {
        let Some(sentence) = syntax
            .sentence(source)
            .filter(|text| text.chars().count() <= MAX_SAMPLE_CHARS)
        else {
            continue;
        };
        for text in [mutant(&sentence, source), sentence] {
            let member = second.accepts(&text);
            for (grammar, recogniser) in &ours {
                let found = recogniser.recognise(&text);
                if (found == Membership::Member) != member {
                    return Err(format!(
                        "{found:?}, earlgrey says {member}: {text:?}\n{grammar}"
                    ));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn the_recogniser_agrees_with_a_second_one_and_with_enumeration() {
    let (sentences, compared) = (Cell::new(0), Cell::new(0));
    source::check(0x6AAE_EA12, CASES, |source| {
        agree(source, &sentences, &compared)
    });
    assert_eq!(compared.get(), CASES * texts().len());
    assert!(
        sentences.get() > compared.get() / 50,
        "{} sentences of {}",
        sentences.get(),
        compared.get()
    );
}
