//! Compares the recognizer with a second, independent one (the crate `earlgrey`) and with
//! enumeration of all sentences, on random grammars.

use std::cell::Cell;

use earlgrey::{EarleyParser, GrammarBuilder};
use sobench_core::constraint::GrammarDialect;
use sobench_grammar::{GrammarError, Membership, Recogniser, compile, convert};

use super::source::{self, Source};
use super::syntax::{LETTERS, Syntax};

/// Number of generated grammars.
const CASES: usize = 100;

/// Maximum characters of the enumerated texts: 121 texts of up to four characters over three
/// letters.
const LENGTH: usize = 4;

/// Number of sampled sentences per grammar, each with a mutant.
const SAMPLES: usize = 4;

/// Maximum characters of a sampled text: the second recognizer takes cubic time.
const MAX_SAMPLE_CHARS: usize = 16;

/// The second recognizer, over single characters.
struct SecondRecogniser(EarleyParser);

impl SecondRecogniser {
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
            let expected_letter = letter.clone();
            builder.terminal_try(letter, move |found| found == expected_letter);
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

/// Recognizers of one grammar: in both notations, and each converted to the other.
fn recognisers(syntax: &Syntax) -> Result<Vec<(String, Recogniser)>, String> {
    let (lark, ebnf) = (GrammarDialect::Lark, GrammarDialect::Ebnf);
    let mut found = Vec::new();
    for (from, to) in [(lark, ebnf), (ebnf, lark)] {
        let text = syntax.to_text(from == lark);
        let compiled = compile(from, &text).map_err(|error| format!("{error}\n{text}"))?;
        found.push((text.clone(), compiled));
        match convert(from, to, &text) {
            Ok(converted) => {
                let compiled = compile(to, &converted.text)
                    .map_err(|error| format!("{error}\n{text}\n{}", converted.text))?;
                found.push((format!("{text}converted:\n{}", converted.text), compiled));
            }
            // A grammar without sentences cannot be converted.
            Err(GrammarError::Unsupported { .. }) => {}
            Err(error) => return Err(format!("{error} on converting\n{text}")),
        }
    }
    Ok(found)
}

/// All texts of up to [`LENGTH`] letters.
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

/// A text with one character replaced, removed or inserted.
fn mutant(text: &str, source: &mut Source) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let position = source.below(characters.len() + 1);
    let letter = source
        .pick(&LETTERS)
        .chars()
        .next()
        .expect("letters are not empty");
    match source.below(3) {
        0 => characters.insert(position, letter),
        1 if position < characters.len() => characters[position] = letter,
        _ if position < characters.len() => drop(characters.remove(position)),
        _ => {}
    }
    characters.into_iter().collect()
}

fn check_grammar(
    source: &mut Source,
    sentences: &Cell<usize>,
    compared: &Cell<usize>,
) -> Result<(), String> {
    let syntax = Syntax::draw(source);
    let (second_recogniser, recognisers) = (SecondRecogniser::new(&syntax), recognisers(&syntax)?);
    let enumerated = syntax.enumerate(LENGTH);
    for text in texts() {
        let member = enumerated.sentences.contains(&text);
        if second_recogniser.accepts(&text) != member {
            return Err(format!(
                "earlgrey differs from the enumeration ({member}): {text:?}\n{}",
                syntax.to_text(false)
            ));
        }
        let mut ends = text.char_indices().map(|(end, _)| end).chain([text.len()]);
        let viable = ends
            .rfind(|end| enumerated.prefixes.contains(&text[..*end]))
            .unwrap_or(0);
        let expected = if member {
            Membership::Member
        } else {
            Membership::NotMember { byte: viable }
        };
        let is_prefix = enumerated.prefixes.contains(&text);
        for (grammar, recogniser) in &recognisers {
            let found = recogniser.recognise(&text);
            if found != expected || recogniser.is_prefix(&text) != is_prefix {
                return Err(format!(
                    "{found:?} for {expected:?}, prefix: {is_prefix}: {text:?}\n{grammar}"
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
            let member = second_recogniser.accepts(&text);
            for (grammar, recogniser) in &recognisers {
                let found = recogniser.recognise(&text);
                if (found == Membership::Member) != member {
                    return Err(format!(
                        "{found:?}, earlgrey: {member}: {text:?}\n{grammar}"
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
        check_grammar(source, &sentences, &compared)
    });
    assert_eq!(compared.get(), CASES * texts().len());
    assert!(
        sentences.get() > compared.get() / 50,
        "{} sentences of {}",
        sentences.get(),
        compared.get()
    );
}
