//! A part of a whole that several clients carry together: which shard this is, and what is its own.
//! Knows neither requests nor entries.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::input::json;
use crate::printable::printable;

/// The most shards that one load or corpus is dealt out to.
pub const MAX_SHARDS: usize = 100_000;

/// Characters of a list of shards, or of a value, that are shown.
const MAX_SHOWN: usize = 80;

/// One of several parts. Every shard knows the whole, and takes each `of`-th item of it, beginning
/// with item `number - 1`: parts do not overlap, and together they are the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// From 1.
    pub number: usize,
    /// How many shards there are.
    pub of: usize,
}

/// Whose word the begin of a shard was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Its own: it began when it was ready.
    #[default]
    Own,
    /// The user's (`--start-at`), by this machine's wall clock.
    StartAt,
    /// The coordinator's, by shard 1's clock.
    Coordinator,
}

/// What one clock is off another, from exchanges of stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// What has to be added to this machine's instants for those of shard 1, in nanoseconds.
    pub offset_ns: i64,
    /// The most that this may be wrong by: half the round trip of the quickest exchange.
    pub uncertainty_ns: u64,
    /// How many exchanges it is the best of.
    pub exchanges: usize,
}

impl Shard {
    /// The only part of what is not divided.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// `None` for a number that is not among 1 to `of`, or for more shards than [`MAX_SHARDS`].
    pub fn new(number: usize, of: usize) -> Option<Self> {
        ((1..=of).contains(&number) && of <= MAX_SHARDS).then_some(Self { number, of })
    }

    /// Whether the item at this place of the whole, from 0, is in this part.
    pub fn takes(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }

    /// How much of a whole of so many is this part's: of items as [`Shard::takes`] deals them, and
    /// of a cap, of which the first shards have one more where it does not come out even.
    pub fn share(self, whole: usize) -> usize {
        whole / self.of + usize::from(self.number <= whole % self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    /// Reads `I/N`; the error says what is wrong with it.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(number, of)| Some((whole(number)?, whole(of)?)));
        let (number, of) = parts.ok_or_else(|| format!("not I/N: {text}"))?;
        if of > MAX_SHARDS {
            return Err(format!("more than {MAX_SHARDS} shards: {text}"));
        }
        Self::new(number, of).ok_or_else(|| format!("no shard from 1/{of} to {of}/{of}: {text}"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Sees that of every shard there is one file, in their order: `parts` are sorted by number, of one
/// plan, each with its file's name.
///
/// # Errors
/// Usage: one is there twice, or missing.
pub fn each_once(parts: &[(Shard, String)]) -> Result<()> {
    if let Some([(shard, one), (_, two)]) = parts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(
            Error::usage(format!("two files are of shard {shard}: {one} and {two}"))
                .hint("name the file of every shard once"),
        );
    }
    let of = parts.first().map_or(0, |(shard, _)| shard.of);
    let is_there = |number: &usize| {
        parts
            .binary_search_by_key(number, |(shard, _)| shard.number)
            .is_ok()
    };
    let missing: Vec<String> = (1..=of)
        .filter(|number| !is_there(number))
        .map(|number| number.to_string())
        .collect();
    let words = match &missing[..] {
        [] => return Ok(()),
        [one] => format!("file of shard {one} is"),
        several => format!(
            "files of shards {} are",
            printable(&several.join(", "), MAX_SHOWN)
        ),
    };
    Err(Error::usage(format!("of {of} shards the {words} missing"))
        .hint("name the file of every shard; that of one that was killed counts as far as it goes"))
}

/// Sees that all parts have the same terms, each with its file's name. `different` says what it
/// means that they have not, `whole` what they are parts of.
///
/// # Errors
/// Usage: the first place at which one differs from the first.
pub fn same_terms(different: &str, whole: &str, parts: &[(Value, String)]) -> Result<()> {
    let Some(((expected, one), others)) = parts.split_first() else {
        return Ok(());
    };
    let differing = others
        .iter()
        .find_map(|(terms, two)| Some((json::difference(expected, terms)?, two)));
    let Some(((place, here, there), two)) = differing else {
        return Ok(());
    };
    let place = place.trim_start_matches("about.");
    let [here, there] = [here, there].map(|value| printable(&value, MAX_SHOWN));
    Err(Error::usage(format!("{different}: {place} is {here} in {one} and {there} in {two}"))
        .hint(format!("shards of one {whole} have the same flags and files but for --shard, and the same version of sobench")))
}

/// Digits alone: Rust's own reading takes a plus sign.
fn whole(digits: &str) -> Option<usize> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole_and_overlap_nowhere() {
        for of in 1..=7 {
            let shards: Vec<Shard> = (1..=of)
                .map(|number| Shard::new(number, of).unwrap())
                .collect();
            for whole in 0..25 {
                assert!(
                    (0..whole).all(|index| shards
                        .iter()
                        .filter(|shard| shard.takes(index))
                        .count()
                        == 1)
                );
                for shard in &shards {
                    assert_eq!(
                        shard.share(whole),
                        (0..whole).filter(|index| shard.takes(*index)).count(),
                        "{shard} of {whole}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_shard_is_spelt_i_of_n_from_one() {
        assert_eq!("2/4".parse(), Ok(Shard { number: 2, of: 4 }));
        assert_eq!("2/4".parse::<Shard>().unwrap().to_string(), "2/4");
        assert_eq!("1/1".parse(), Ok(Shard::WHOLE));
        for (text, words) in [
            ("0/4", "no shard from 1/4 to 4/4: 0/4"),
            ("5/4", "no shard from 1/4 to 4/4: 5/4"),
            ("1/0", "no shard from 1/0 to 0/0: 1/0"),
            ("2", "not I/N: 2"),
            ("+1/4", "not I/N: +1/4"),
            ("/4", "not I/N: /4"),
            ("1/2/3", "not I/N: 1/2/3"),
            ("1/100001", "more than 100000 shards: 1/100001"),
        ] {
            assert_eq!(text.parse::<Shard>(), Err(words.to_owned()));
        }
    }
}
