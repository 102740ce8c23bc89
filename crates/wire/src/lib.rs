//! What client libraries read from a stream of chat completions: one function for each client, with
//! its version and source (`fixtures/joins/clients.json` has what the real clients read, by
//! `tests/live/clients.py`); and how the frames of an answer depart from its API.

mod client;
mod clients;
mod deltas;
mod events;
mod frames;
mod messages;
mod schema;
mod shape;

pub use client::{Client, Read, ReadCall, Reading, is_same};
pub use clients::{CLIENTS, are_same, readings};
pub use events::Stream;
pub use shape::shape;
