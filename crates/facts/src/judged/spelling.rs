//! The spelling of a JSON answer ([`FreeChoices`]) in 20 bytes.

use sobench_judge::free_choices::{FreeChoices, MemberOrder, NonAscii, SpelledLength, WhiteSpace};

/// In place of a length.
const NONE: u32 = u32::MAX;

/// [`FreeChoices`] with lengths up to 4 GiB, which is more than the client reads of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Spelling {
    /// As written, and in the compact spelling.
    bytes: [u32; 2],
    /// [`NONE`] without a counter.
    tokens: [u32; 2],
    member_order: Option<MemberOrder>,
    white_space: WhiteSpace,
    outer_white_space: bool,
    non_ascii: Option<NonAscii>,
}

fn packed(length: SpelledLength) -> [u32; 2] {
    [length.written, length.compact]
        .map(|length| u32::try_from(length).map_or(NONE - 1, |length| length.min(NONE - 1)))
}

fn unpacked([written, compact]: [u32; 2]) -> SpelledLength {
    SpelledLength {
        written: written as usize,
        compact: compact as usize,
    }
}

impl From<FreeChoices> for Spelling {
    fn from(choices: FreeChoices) -> Self {
        Self {
            bytes: packed(choices.bytes),
            tokens: choices.tokens.map_or([NONE; 2], packed),
            member_order: choices.member_order,
            white_space: choices.white_space,
            outer_white_space: choices.outer_white_space,
            non_ascii: choices.non_ascii,
        }
    }
}

impl From<Spelling> for FreeChoices {
    fn from(spelling: Spelling) -> Self {
        Self {
            member_order: spelling.member_order,
            white_space: spelling.white_space,
            outer_white_space: spelling.outer_white_space,
            non_ascii: spelling.non_ascii,
            bytes: unpacked(spelling.bytes),
            tokens: (spelling.tokens != [NONE; 2]).then(|| unpacked(spelling.tokens)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_round_trips_in_few_bytes() {
        let length = |written, compact| SpelledLength { written, compact };
        let plain = FreeChoices {
            member_order: None,
            white_space: WhiteSpace::Mixed,
            outer_white_space: true,
            non_ascii: None,
            bytes: length(70_000, 0),
            tokens: None,
        };
        let other = FreeChoices {
            member_order: Some(MemberOrder::Other),
            non_ascii: Some(NonAscii::Escaped),
            tokens: Some(length(9, 8)),
            ..plain
        };
        for choices in [plain, other] {
            assert_eq!(FreeChoices::from(Spelling::from(choices)), choices);
        }
        assert_eq!(size_of::<Option<Spelling>>(), 20);
    }
}
