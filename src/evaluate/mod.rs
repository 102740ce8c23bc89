//! Judges an answer by its constraint. Pure: no clock, no network, no environment.
