//! Observations and verdicts to numbers. Pure: no clock, no network, no environment.
