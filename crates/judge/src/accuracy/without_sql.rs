//! In place of the scorer `sql`, in a build without the feature `sql`.

use serde_json::Value;

/// Never made: this build has no database.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Database {}

impl Database {
    pub(super) fn new(_: &Value) -> Result<Self, String> {
        Err("this build has no SQLite; install sobench with `--features sql`".to_owned())
    }

    pub(super) fn is_right(&self, _: &str) -> Option<bool> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_an_error() {
        let reference = serde_json::json!({"database": "", "query": "SELECT 1"});
        assert!(
            Database::new(&reference)
                .unwrap_err()
                .contains("--features sql")
        );
    }
}
