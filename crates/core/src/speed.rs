//! How fast the synthetic model of the embedded server is: profiles named after the servers that they imitate.
//!
//! A step takes `step_ms`, and `sequence_ms` more for each sequence in it. The prompts of sequences
//! that get their first token in the step add their tokens at `prefill_tokens_per_s`. The sources
//! of the numbers, and their distance from the published ones, are in `docs/serve.md`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::registry;

/// A row of the table of profiles.
pub struct SpeedSpec {
    /// The name in `--embedded-speed`.
    pub name: &'static str,
    /// The line in `--help`.
    pub about: &'static str,
    /// Time of a step without sequences, in milliseconds.
    pub step_ms: f64,
    /// Additional time for each sequence of the step, in milliseconds.
    pub sequence_ms: f64,
    /// Prompt tokens in a second. Infinite if prompts take no time.
    pub prefill_tokens_per_s: f64,
}

const INSTANT: SpeedSpec = SpeedSpec {
    name: "instant",
    about: "As fast as this machine computes masks",
    step_ms: 0.0,
    sequence_ms: 0.0,
    prefill_tokens_per_s: f64::INFINITY,
};

const H100_8B: SpeedSpec = SpeedSpec {
    name: "8b-h100",
    about: "An 8B model in 16 bits on one H100",
    step_ms: 7.5,
    sequence_ms: 0.08,
    prefill_tokens_per_s: 45_000.0,
};

const H100S_70B: SpeedSpec = SpeedSpec {
    name: "70b-4xh100",
    about: "A 70B model in 16 bits on four H100",
    step_ms: 19.5,
    sequence_ms: 0.08,
    prefill_tokens_per_s: 14_000.0,
};

const LAPTOP_8B: SpeedSpec = SpeedSpec {
    name: "8b-laptop",
    about: "An 8B model in 4 bits on a laptop (M3 Max)",
    step_ms: 17.3,
    sequence_ms: 2.7,
    prefill_tokens_per_s: 690.0,
};

registry! {
    /// A speed of the synthetic model, named as in `--embedded-speed`.
    #[derive(Default)]
    pub enum SpeedProfile is "speed" with SpeedSpec {
        #[default]
        Instant => INSTANT,
        H100For8b => H100_8B,
        H100sFor70b => H100S_70B,
        LaptopFor8b => LAPTOP_8B,
    }
}

/// The speed of an embedded server: a profile, and times that replace its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Speed {
    pub profile: SpeedProfile,
    /// Minimum time from a request's arrival to its first token, in milliseconds. Replaces the
    /// profile's time of prompts.
    pub ttft_ms: Option<f64>,
    /// Time between tokens, in milliseconds. Replaces the profile's time of steps.
    pub itl_ms: Option<f64>,
    /// Time of a step, in milliseconds. Replaces the profile's time of steps.
    pub step_ms: Option<f64>,
}

impl From<SpeedProfile> for Speed {
    fn from(profile: SpeedProfile) -> Self {
        Self {
            profile,
            ..Self::default()
        }
    }
}

/// The profile, and the times that replace its own: `8b-h100, step 5 ms`.
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.profile)?;
        let times = [
            ("TTFT", self.ttft_ms),
            ("ITL", self.itl_ms),
            ("step", self.step_ms),
        ];
        for (name, ms) in times {
            if let Some(ms) = ms {
                write!(f, ", {name} {ms} ms")?;
            }
        }
        Ok(())
    }
}
