//! The only loop that talks to a server. Knows instants and bytes, not what an answer means.
