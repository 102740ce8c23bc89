//! Progress of work through input files.

/// Gets how much of an input has been worked on, in bytes.
pub trait Progress: Sync {
    /// There is more to work on.
    fn expect(&self, more_bytes: u64);

    /// More has been worked on.
    fn advance(&self, bytes: u64);
}

/// Ignores progress.
impl Progress for () {
    fn expect(&self, _more_bytes: u64) {}

    fn advance(&self, _bytes: u64) {}
}
