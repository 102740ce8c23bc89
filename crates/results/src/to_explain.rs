//! The request of a run that `sobench explain` can say more about.

use std::path::Path;

use sobench_core::case::Arm;
use sobench_core::observation::Outcome;
use sobench_core::printable::printable;
use sobench_core::verdict::{Reason, Verdict};
use sobench_facts::Sample;
use sobench_plan::record::ServerRecord;

/// A request that was refused, timed out or broke its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToExplain {
    /// The id of the request.
    case: String,
    /// `None` for the embedded server.
    base_url: Option<String>,
}

impl ToExplain {
    /// The first constrained request that was refused, otherwise that timed out, otherwise that broke
    /// its schema.
    pub fn new(samples: &[Sample<'_>], server: &ServerRecord) -> Option<Self> {
        let constrained = || {
            samples
                .iter()
                .filter(|sample| sample.arm() == Arm::Constrained)
        };
        let is_late = |sample: &&Sample<'_>| matches!(sample.outcome(), Outcome::TimedOut { .. });
        let is_broken = |sample: &&Sample<'_>| {
            matches!(
                sample.verdict(),
                Verdict::Invalid {
                    reason: Reason::Schema { .. }
                }
            )
        };
        let found = constrained()
            .find(|sample| is_refused(sample))
            .or_else(|| constrained().find(is_late))
            .or_else(|| constrained().find(is_broken))?;
        Some(Self {
            case: found.id(),
            base_url: (!server.embedded).then(|| server.base_url.clone()),
        })
    }

    /// The line that ends a page, with the command. `path` is the run log.
    pub fn line(&self, path: &Path) -> String {
        let [path, case] = [&path.display().to_string(), &self.case].map(|word| shell_word(word));
        let url = self.base_url.as_ref().map_or_else(String::new, |url| {
            format!(" \\\n  --base-url {}", shell_word(url))
        });
        format!("why: sobench explain {path} --case {case}{url}")
    }
}

/// Whether the content of the request was refused, which may be its constraint.
pub fn is_refused(sample: &Sample<'_>) -> bool {
    let outcome = sample.outcome();
    outcome.content_refusal().is_some() || matches!(outcome, Outcome::Unsupported { .. })
}

/// A word of a shell command, in quotes where it needs them.
pub fn shell_word(word: &str) -> String {
    let word = printable(word, usize::MAX);
    let is_plain =
        |character: char| character.is_alphanumeric() || "_-./+=:@%,~".contains(character);
    if word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
