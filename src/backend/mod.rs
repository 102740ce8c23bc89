//! Server kinds: how a case becomes a request and bytes become deltas. Knows no sockets and no clock.
