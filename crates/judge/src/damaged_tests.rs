//! Damaged JSON documents for tests of readers.

/// A document with every kind of value, escapes and white space.
pub(crate) const SEED: &str =
    r#" {"a\n\u00e9" : [1, -0.5e+3, true, false, null, "x\\\"y", {}], "b":{"c":[[]]}} "#;

/// A document, and what becomes of it by one change at each place: the rest is cut, a character is
/// left out, replaced or added. Some of them are JSON.
pub(crate) fn damaged(seed: &str) -> Vec<String> {
    let alphabet: Vec<char> = "{}[]:,\"\\u0123e.-+tn \u{1}é".chars().collect();
    let characters: Vec<char> = seed.chars().collect();
    let mut texts = vec![seed.to_owned()];
    for index in 0..characters.len() {
        let (head, tail) = (&characters[..index], &characters[index..]);
        texts.push(head.iter().collect());
        texts.push(head.iter().chain(&tail[1..]).collect());
        for replacement in &alphabet {
            texts.push(head.iter().chain([replacement]).chain(&tail[1..]).collect());
            texts.push(head.iter().chain([replacement]).chain(tail).collect());
        }
    }
    texts
}
