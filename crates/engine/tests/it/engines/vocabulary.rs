//! All engines use the ids and bytes of the vocabulary. The engine's view is reconstructed from its
//! masks, bit by bit: the regex "`position` characters, then one whose code has this bit" allows a
//! token depending on that bit of that character. Swapped ids or bytes, and special, unused or end
//! tokens that are allowed in text, are therefore detected.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sobench_core::constraint::Constraint;
use sobench_engine::{EngineName, TokenMask, Vocabulary};

use super::{built_in_engines, cl100k, open, small};

/// Bits of a printable ASCII character.
const BITS: u32 = 7;

/// Number of characters per token that are checked for a large vocabulary, whose regexes compile
/// slowly in some engines.
const POSITIONS_OF_LARGE: usize = 1;

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

/// Whether the token may start such a text. `None` if it has incomplete characters, which engines
/// handle differently.
fn expected(bytes: &[u8], position: usize, bit: u32) -> Option<bool> {
    let text = std::str::from_utf8(bytes).ok()?;
    let char = text.chars().nth(position);
    Some(char.is_none_or(|char| !(' '..='~').contains(&char) || u32::from(char) >> bit & 1 == 1))
}

#[track_caller]
fn check_bits(name: EngineName, vocabulary: &Arc<Vocabulary>, positions: usize) {
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
    // The end token is allowed where the text may end, other special tokens never.
    let mut matcher = engine
        .compile(&Constraint::Regex("(.|\\n)*".into()))
        .unwrap()
        .matcher()
        .unwrap();
    matcher.mask(&mut mask).unwrap();
    assert!(
        mask.allows(vocabulary.eos()),
        "{name:?}: the empty text is a complete answer"
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
fn engines_use_the_ids_and_bytes_of_a_tokenizer_file() {
    let vocabulary = small();
    let characters =
        |id| std::str::from_utf8(vocabulary.bytes(id)).map_or(0, |text| text.chars().count());
    let longest = (0..).take(vocabulary.len()).map(characters).max().unwrap();
    assert!(
        longest > 5,
        "every character of every token is checked: {longest}"
    );
    built_in_engines().for_each(|name| check_bits(name, vocabulary, longest));
}

#[test]
fn engines_use_the_ids_and_bytes_of_the_embedded_vocabulary() {
    built_in_engines().for_each(|name| check_bits(name, cl100k(), POSITIONS_OF_LARGE));
}

/// Number of tokens of a large vocabulary whose bytes are checked completely, spread over all ids,
/// and number per constraint.
const CHECKED_TOKENS: usize = 600;
const TOKENS_PER_CHOICE: usize = 300;

/// A choice of token texts allows exactly the tokens that are prefixes of a choice.
#[track_caller]
fn check_whole_tokens(name: EngineName, vocabulary: &Arc<Vocabulary>) {
    let engine = open(name, vocabulary);
    let is_printable = |bytes: &[u8]| bytes.len() > 1 && bytes.iter().all(u8::is_ascii_graphic);
    let tokens: Vec<&[u8]> = (0..)
        .take(vocabulary.len())
        .map(|id| vocabulary.bytes(id))
        .filter(|bytes| is_printable(bytes))
        .collect();
    let sample: Vec<&[u8]> = tokens
        .iter()
        .copied()
        .step_by(tokens.len() / CHECKED_TOKENS)
        .collect();
    assert!(sample.len() >= CHECKED_TOKENS, "{} tokens", tokens.len());
    let mut ids: HashMap<&[u8], Vec<u32>> = HashMap::new();
    for id in (0..).take(vocabulary.len()) {
        ids.entry(vocabulary.bytes(id)).or_default().push(id);
    }
    let mut mask = TokenMask::new(vocabulary.len());
    for tokens in sample.chunks_exact(TOKENS_PER_CHOICE) {
        // No text is a prefix of another.
        let texts: Vec<String> = tokens
            .iter()
            .map(|token| format!("{}\n", String::from_utf8_lossy(token)))
            .collect();
        let mut matcher = engine
            .compile(&Constraint::Choice(texts.clone().into()))
            .unwrap()
            .matcher()
            .unwrap();
        matcher.mask(&mut mask).unwrap();
        let prefixes = texts
            .iter()
            .flat_map(|text| (1..=text.len()).map(|end| &text.as_bytes()[..end]));
        let expected: BTreeSet<u32> = prefixes
            .filter_map(|prefix| ids.get(prefix))
            .flatten()
            .copied()
            .collect();
        assert!(
            expected.len() >= tokens.len() && mask.iter().eq(expected),
            "{name:?}, {}: {texts:?}",
            vocabulary.name()
        );
    }
}

#[test]
fn engines_use_complete_tokens_of_the_embedded_vocabulary() {
    built_in_engines().for_each(|name| check_whole_tokens(name, cl100k()));
}
