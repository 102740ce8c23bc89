//! Shards: how cases, entries and limits are divided among several clients.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::input::json;
use crate::printable::printable;

/// Maximum number of shards of a load or corpus.
pub const MAX_SHARDS: usize = 100_000;

/// Maximum number of characters shown of a list of shards or of a value.
const MAX_SHOWN: usize = 80;

/// One of several parts. Shard `number` takes every `of`-th item of the whole, starting with item
/// `number - 1`. Shards do not overlap, and together they cover the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Shard {
    /// From 1.
    pub number: usize,
    /// Number of shards.
    pub of: usize,
}

/// What determined the start time of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The shard started when it was ready.
    #[default]
    Own,
    /// The user (`--start-at`), by this machine's wall clock.
    StartAt,
    /// The coordinator, by shard 1's clock.
    Coordinator,
}

/// Offset between two clocks, measured by exchanging timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Nanoseconds to add to this machine's instants to get those of shard 1.
    pub offset_ns: i64,
    /// Maximum error of the offset: half the round trip of the fastest exchange.
    pub uncertainty_ns: u64,
    /// Number of exchanges, of which the fastest counts.
    pub exchanges: usize,
}

impl Shard {
    /// The only shard of undivided work.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// `None` if `number` is not in 1 to `of`, or `of` is above [`MAX_SHARDS`].
    pub fn new(number: usize, of: usize) -> Option<Self> {
        ((1..=of).contains(&number) && of <= MAX_SHARDS).then_some(Self { number, of })
    }

    /// Whether the shard contains the item with this index of the whole, from 0.
    pub fn takes(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }

    /// This shard's share of `whole`: of items as in [`Shard::takes`], or of a limit. The first
    /// shards have one more if it does not divide evenly.
    pub fn share(self, whole: usize) -> usize {
        whole / self.of + usize::from(self.number <= whole % self.of)
    }
}

/// What shards divide: single requests, or sessions, whose turns stay together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// The end of each session: the index after its last request. Empty for single requests.
    ends: Vec<usize>,
}

impl Units {
    /// Sessions with these numbers of turns, one after the other; none for single requests.
    pub fn new(turns: &[u32]) -> Self {
        let next = |end: &mut usize, turns: &u32| {
            *end += *turns as usize;
            Some(*end)
        };
        Self {
            ends: turns.iter().scan(0, next).collect(),
        }
    }

    /// Whether requests are turns of sessions.
    pub fn are_sessions(&self) -> bool {
        !self.ends.is_empty()
    }

    /// The unit of a request. Requests after the last session are of its next repetition.
    pub fn unit(&self, index: usize) -> usize {
        let Some(all) = self.ends.last().copied().filter(|all| *all > 0) else {
            return index;
        };
        let unit = self.ends.partition_point(|end| *end <= index % all);
        index / all * self.ends.len() + unit
    }

    /// Whether a shard contains the request with this index of the whole.
    pub fn takes(&self, part: Shard, index: usize) -> bool {
        part.takes(self.unit(index))
    }

    /// The indices that a shard contains, of `requests`.
    pub fn indices(&self, part: Shard, requests: usize) -> impl Iterator<Item = usize> + '_ {
        (0..requests).filter(move |index| self.takes(part, *index))
    }

    /// The number of requests of a shard, of `requests`.
    pub fn share(&self, part: Shard, requests: usize) -> usize {
        if part == Shard::WHOLE {
            requests
        } else if self.are_sessions() {
            self.indices(part, requests).count()
        } else {
            part.share(requests)
        }
    }
}

impl FromStr for Shard {
    type Err = String;

    /// Parses `I/N`; the error is a message.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(number, of)| Some((whole(number)?, whole(of)?)));
        let (number, of) = parts.ok_or_else(|| format!("not I/N: {text}"))?;
        if of > MAX_SHARDS {
            return Err(format!("more than {MAX_SHARDS} shards: {text}"));
        }
        Self::new(number, of).ok_or_else(|| format!("not a shard from 1/{of} to {of}/{of}: {text}"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// The shards without a file. `parts` are shards of one plan with their file names, sorted by
/// number.
///
/// # Errors
/// A usage error: a shard has two files.
pub fn missing_shards(parts: &[(Shard, String)]) -> Result<Vec<usize>> {
    if let Some([(shard, one), (_, two)]) = parts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(
            Error::usage(format!("two files for shard {shard}: {one} and {two}"))
                .hint("give the file of each shard once"),
        );
    }
    let of = parts.first().map_or(0, |(shard, _)| shard.of);
    let is_there = |number: &usize| {
        parts
            .binary_search_by_key(number, |(shard, _)| shard.number)
            .is_ok()
    };
    Ok((1..=of).filter(|number| !is_there(number)).collect())
}

/// Checks that there is exactly one file of each shard, as [`missing_shards`].
///
/// # Errors
/// A usage error with `hint`: a shard is missing or has two files.
pub fn check_all_present(parts: &[(Shard, String)], hint: &str) -> Result<()> {
    let missing = missing_shards(parts)?;
    let of = parts.first().map_or(0, |(shard, _)| shard.of);
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let missing = match &missing[..] {
        [] => return Ok(()),
        [one] => format!("the file of shard {one}"),
        several => format!(
            "the files of shards {}",
            printable(&several.join(", "), MAX_SHOWN)
        ),
    };
    Err(Error::usage(format!("missing of {of} shards: {missing}")).hint(hint))
}

/// Checks that all parts have the same settings, each with its file name. `different` is the
/// message if they differ, `whole` the noun for the complete run.
///
/// # Errors
/// A usage error with the first difference.
pub fn check_same_settings(different: &str, whole: &str, parts: &[(Value, String)]) -> Result<()> {
    let Some(((expected, one), others)) = parts.split_first() else {
        return Ok(());
    };
    let differing = others
        .iter()
        .find_map(|(terms, two)| Some((json::first_difference(expected, terms)?, two)));
    let Some(((position, first_value, second_value), two)) = differing else {
        return Ok(());
    };
    let position = position.trim_start_matches("record.");
    let [first_value, second_value] =
        [first_value, second_value].map(|value| printable(&value, MAX_SHOWN));
    Err(Error::usage(format!("{different}: {position} is {first_value} in {one} and {second_value} in {two}"))
        .hint(format!("use the same flags (except --shard), files and version of sobench for all shards of one {whole}")))
}

/// Digits only: Rust's `parse` accepts a plus sign.
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
    fn shards_cover_the_whole_without_overlap() {
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
    fn turns_of_a_session_are_in_one_shard() {
        let units = Units::new(&[3, 1, 2]);
        let of = |number| Shard::new(number, 2).unwrap();
        let indices = |number| units.indices(of(number), 9).collect::<Vec<_>>();
        // The second repetition starts at 6.
        assert_eq!(indices(1), [0, 1, 2, 4, 5]);
        assert_eq!(indices(2), [3, 6, 7, 8]);
        assert_eq!(
            (units.share(of(1), 6), units.share(Shard::WHOLE, 6)),
            (5, 6)
        );
        let single = Units::default();
        assert_eq!(single.indices(of(2), 6).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(single.share(of(1), 5), 3);
    }

    #[test]
    fn shards_are_parsed_from_i_of_n() {
        assert_eq!("2/4".parse(), Ok(Shard { number: 2, of: 4 }));
        assert_eq!("2/4".parse::<Shard>().unwrap().to_string(), "2/4");
        assert_eq!("1/1".parse(), Ok(Shard::WHOLE));
        for (text, message) in [
            ("0/4", "not a shard from 1/4 to 4/4: 0/4"),
            ("5/4", "not a shard from 1/4 to 4/4: 5/4"),
            ("1/0", "not a shard from 1/0 to 0/0: 1/0"),
            ("2", "not I/N: 2"),
            ("+1/4", "not I/N: +1/4"),
            ("/4", "not I/N: /4"),
            ("1/2/3", "not I/N: 1/2/3"),
            ("1/100001", "more than 100000 shards: 1/100001"),
        ] {
            assert_eq!(text.parse::<Shard>(), Err(message.to_owned()));
        }
    }
}
