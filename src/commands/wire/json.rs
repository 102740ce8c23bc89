//! The JSON of `sobench wire`, specified by `schemas/contracts/wire.schema.json`.

use serde_json::Value;

use super::recording::Recorded;
use sobench_core::departure::{Departure, ForbiddenBy};
use sobench_core::json_struct;
use sobench_wire::{ReadCall, Reading};

json_struct! {
    /// How recorded answers depart from the API, and what clients read of them.
    pub struct WireFile<'a> = |found: &'a [Recorded]| {
        #[schemars(extend("const" = "sobench-wire"))]
        format: &'static str = "sobench-wire",
        /// Raised when a key is removed or changes its meaning.
        format_version: u32 = 1,
        sobench_version: &'static str = env!("CARGO_PKG_VERSION"),
        answers: Vec<AnswerEntry<'a>> = found.iter().map(AnswerEntry::new).collect(),
    }

    /// A recorded answer.
    struct AnswerEntry<'a> = |found: &'a Recorded| {
        /// The file, and the entry or request in it.
        name: &'a str = &found.name,
        departures: Vec<DepartureEntry<'a>> = found.departures.iter().map(DepartureEntry::new).collect(),
        /// Of streams of chat completions.
        clients: Vec<ClientEntry<'a>> = found.readings.iter().map(ClientEntry::new).collect(),
    }

    struct DepartureEntry<'a> = |found: (Departure, &'a str)| {
        name: Departure = found.0,
        forbidden_by: ForbiddenBy = found.0.forbidden_by(),
        example: &'a str = found.1,
    }

    /// What a client reads.
    struct ClientEntry<'a> = |found: &'a (&'static str, Reading)| [
        let read = found.1.as_ref().ok();
    ] {
        client: &'static str = found.0,
        /// The error that it raises; `null` if it reads an answer.
        error: Option<&'a str> = found.1.as_ref().err().map(String::as_str),
        content: &'a str = read.map_or("", |read| &read.content),
        calls: Vec<CallEntry<'a>> = read.iter().flat_map(|read| &read.calls).map(CallEntry::new).collect(),
    }

    struct CallEntry<'a> = |found: &'a ReadCall| {
        id: &'a str = &found.id,
        name: &'a str = &found.name,
        /// A text; an object where the client parses it, or where the stream has one.
        arguments: &'a Value = &found.arguments,
    }
}
