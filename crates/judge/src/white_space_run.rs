//! Answers that end in white space without end.

use sobench_core::observation::Outcome;

/// Minimum white space at the end of a truncated answer that counts as endless. Indentation is much
/// shorter.
const RUN_AWAY_CHARS: usize = 24;

/// Whether an answer was truncated at the token limit while writing only white space.
pub fn is_white_space_run(outcome: &Outcome, text: &str) -> bool {
    *outcome == Outcome::Truncated
        && text[text.trim_end().len()..].chars().count() >= RUN_AWAY_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_truncated_answers_end_in_white_space() {
        let long = format!("{{{}", "\n ".repeat(20));
        assert!(is_white_space_run(&Outcome::Truncated, &long));
        assert!(!is_white_space_run(&Outcome::Completed, &long));
        assert!(!is_white_space_run(&Outcome::Truncated, "{ \n"));
    }
}
