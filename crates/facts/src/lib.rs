//! Facts of the requests of a run: one row a request, in columns, some hundred bytes each, so that a
//! million requests fit into memory.
//!
//! What is known of a request is declared once, as a column with its name, type and packing
//! ([`mod@columns`]): what its end showed in [`observed`], what judging it showed in [`judged`], where the
//! names are also the keys of a `judged` line of the run log. [`RequestTable`] holds the columns of a
//! run, and [`Sample`] is a view of one row.

mod chunks;
pub mod client_reads;
pub mod columns;
pub mod compact_ids;
mod hashes;
pub mod judged;
pub mod latency;
pub mod observed;
pub mod parity;
pub mod reasoning;
mod sample;
mod table;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
mod times;

pub use self::chunks::{ArrivalSlack, ChunkSource, ChunksAndTokens};
pub use self::hashes::{constraint_hash, content_hash, copy_hash, has_copies};
pub use self::judged::{Judged, TokenSource, Tokens};
pub use self::sample::Sample;
pub use self::table::{RequestInput, RequestTable};
pub use self::times::RequestTimes;
