//! Promise: all engines mask the same vocabulary. What an engine holds of it is read back from its
//! masks, bit by bit: the regex "`position` characters, then one whose code has this bit" allows a
//! token or not according to that bit of that character, so that ids and bytes that were mixed up
//! show; special, unused and end tokens show by being allowed in text.

use std::sync::Arc;

use sobench_core::constraint::Constraint;
use sobench_engine::{EngineName, TokenMask, Vocabulary};

use super::{cl100k, names, open, small};

/// Bits of a printable ASCII character.
const BITS: u32 = 7;

/// Characters of a token that are read back of a large vocabulary, whose regexes take long to
/// compile in some engines.
const LARGE_POSITIONS: usize = 1;

fn printable() -> impl Iterator<Item = char> {
    ' '..='~'
}

/// Text whose character at `position` is not a printable one without the bit.
fn regex(position: usize, bit: u32) -> Constraint {
    let without: Vec<char> = printable()
        .filter(|&char| u32::from(char) >> bit & 1 == 0)
        .collect();
    let escape = |char: &char| {
        if r"\]^-[".contains(*char) {
            format!("\\{char}")
        } else {
            char.to_string()
        }
    };
    let class: String = without.iter().map(escape).collect();
    Constraint::Regex(format!("{}[^{class}](.|\\n)*", "(.|\\n)".repeat(position)).into())
}

/// Whether the token may begin such a text; `None` where it is not whole characters, of which
/// engines think differently.
fn expected(bytes: &[u8], position: usize, bit: u32) -> Option<bool> {
    let text = std::str::from_utf8(bytes).ok()?;
    let char = text.chars().nth(position);
    Some(char.is_none_or(|char| !(' '..='~').contains(&char) || u32::from(char) >> bit & 1 == 1))
}

#[track_caller]
fn check(name: EngineName, vocabulary: &Arc<Vocabulary>, positions: usize) {
    let engine = open(name, vocabulary);
    let mut mask = TokenMask::new(vocabulary.len());
    for (position, bit) in
        (0..positions).flat_map(|position| (0..BITS).map(move |bit| (position, bit)))
    {
        let mut matcher = engine
            .compile(&regex(position, bit))
            .unwrap()
            .matcher()
            .unwrap();
        matcher.mask(&mut mask).unwrap();
        for token in (0..).take(vocabulary.len()) {
            let bytes = vocabulary.bytes(token);
            let expected = if bytes.is_empty() {
                Some(false)
            } else {
                expected(bytes, position, bit)
            };
            let allowed = mask.allows(token);
            assert!(
                expected.is_none_or(|expected| expected == allowed),
                "{name:?}, {}, token {token} ({:?}), bit {bit} of character {position}: allowed is {allowed}",
                vocabulary.name(),
                String::from_utf8_lossy(bytes),
            );
        }
    }
    // The end comes where the text may end, and no other special token ever does.
    let mut matcher = engine
        .compile(&Constraint::Regex("(.|\\n)*".into()))
        .unwrap()
        .matcher()
        .unwrap();
    matcher.mask(&mut mask).unwrap();
    assert!(
        mask.allows(vocabulary.eos()),
        "{name:?}: nothing at all is a whole text here"
    );
    for token in (0..)
        .take(vocabulary.len())
        .filter(|&token| vocabulary.bytes(token).is_empty())
    {
        assert_eq!(
            mask.allows(token),
            token == vocabulary.eos(),
            "{name:?}, {}, token {token}",
            vocabulary.name()
        );
    }
    assert!(
        mask.iter().all(|token| (token as usize) < vocabulary.len()),
        "{name:?}: bits past the vocabulary"
    );
}

#[test]
fn every_engine_holds_the_ids_and_bytes_of_a_model_s_own_vocabulary() {
    let vocabulary = small();
    let characters =
        |id| std::str::from_utf8(vocabulary.bytes(id)).map_or(0, |text| text.chars().count());
    let longest = (0..).take(vocabulary.len()).map(characters).max().unwrap();
    assert!(
        longest > 5,
        "every character of every token is read back: {longest}"
    );
    names().for_each(|name| check(name, vocabulary, longest));
}

#[test]
fn every_engine_holds_the_ids_and_bytes_of_the_embedded_vocabulary() {
    names().for_each(|name| check(name, cl100k(), LARGE_POSITIONS));
}

/// Tokens whose bytes are read back whole of a large vocabulary, spread over all ids, and how many
/// of them at a time.
const WORDS: usize = 1_500;
const WORDS_AT_ONCE: usize = 300;

/// A choice among the texts of tokens allows those tokens, and of all others those alone that begin
/// one of the texts.
#[track_caller]
fn check_whole_tokens(name: EngineName, vocabulary: &Arc<Vocabulary>) {
    let engine = open(name, vocabulary);
    let is_word = |bytes: &[u8]| bytes.len() > 1 && bytes.iter().all(u8::is_ascii_graphic);
    let words: Vec<&[u8]> = (0..)
        .take(vocabulary.len())
        .map(|id| vocabulary.bytes(id))
        .filter(|bytes| is_word(bytes))
        .collect();
    let spread: Vec<&[u8]> = words.iter().copied().step_by(words.len() / WORDS).collect();
    assert!(spread.len() >= WORDS, "{} words", words.len());
    let mut mask = TokenMask::new(vocabulary.len());
    for words in spread.chunks(WORDS_AT_ONCE) {
        // No text of these begins another.
        let texts: Vec<String> = words
            .iter()
            .map(|word| format!("{}\n", String::from_utf8_lossy(word)))
            .collect();
        let begins_one = |bytes: &[u8]| {
            !bytes.is_empty() && texts.iter().any(|text| text.as_bytes().starts_with(bytes))
        };
        let mut matcher = engine
            .compile(&Constraint::Choice(texts.clone().into()))
            .unwrap()
            .matcher()
            .unwrap();
        matcher.mask(&mut mask).unwrap();
        let expected: Vec<_> = (0..)
            .take(vocabulary.len())
            .filter(|&id| begins_one(vocabulary.bytes(id)))
            .collect();
        assert!(
            expected.len() >= words.len() && mask.iter().eq(expected),
            "{name:?}, {}: {texts:?}",
            vocabulary.name()
        );
    }
}

#[test]
fn every_engine_holds_whole_tokens_of_both_embedded_vocabularies() {
    let o200k = Arc::new(Vocabulary::o200k().unwrap());
    for vocabulary in [cl100k(), &o200k] {
        names().for_each(|name| check_whole_tokens(name, vocabulary));
    }
}
