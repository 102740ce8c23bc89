//! The JSON file of `sobench preflight --limits`, specified by
//! `schemas/contracts/preflight-limits.schema.json`. Unknown values are `null`.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::commands::preflight::report::json::key;
use sobench_core::error::{Error, Result};
use sobench_core::input::read_text;
use sobench_preflight::limits::{ServerLimits, Verdict};

/// The format and its version, increased when a key changes its meaning or is removed.
const FORMAT: &str = "sobench-preflight-limits";
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Limit on the size of a file.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The whole file.
pub(crate) fn render(servers: &[ServerLimits]) -> Value {
    let meanings: Map<String, Value> = Verdict::ALL
        .into_iter()
        .map(|verdict| (key(verdict), verdict.meaning().into()))
        .collect();
    json!({
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "sobench_version": env!("CARGO_PKG_VERSION"),
        "servers": servers,
        "verdicts": meanings,
    })
}

/// The servers of a file.
///
/// # Errors
/// The file cannot be read, is no such file, or is of a later version.
pub(crate) fn read(path: &Path) -> Result<Vec<ServerLimits>> {
    #[derive(Deserialize)]
    struct File {
        format: String,
        format_version: u32,
        servers: Vec<ServerLimits>,
    }
    const HINT: &str = "give files that `sobench preflight --limits --json FILE` wrote";
    let text = read_text(path, MAX_FILE_BYTES)?;
    let invalid = |what: &dyn std::fmt::Display| {
        Error::usage(format!(
            "no result of preflight --limits ({what}): {}",
            path.display()
        ))
        .hint(HINT)
    };
    let file: File = serde_json::from_str(&text).map_err(|error| invalid(&error))?;
    if file.format != FORMAT {
        return Err(invalid(&format!("its format is {:?}", file.format)));
    }
    if file.format_version != FORMAT_VERSION {
        return Err(invalid(&format!(
            "its format version is {}, and this version reads {FORMAT_VERSION}",
            file.format_version
        )));
    }
    if file.servers.is_empty() {
        return Err(invalid(&"it has no servers"));
    }
    Ok(file.servers)
}

#[cfg(test)]
mod tests {
    use super::super::testing::servers;
    use super::*;
    use sobench_testkit::contract;

    const CONTRACT: &str =
        include_str!("../../../../../schemas/contracts/preflight-limits.schema.json");

    fn check(file: &Value) -> std::result::Result<(), String> {
        contract::check(CONTRACT, file)
    }

    #[test]
    fn files_match_the_contract_and_are_read_back() {
        let file = render(&servers());
        let text = file.to_string();
        let parsed: Value = serde_json::from_str(&text).expect("what we write is JSON");
        assert_eq!(check(&parsed), Ok(()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("limits.json");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap(), servers());
        for (pointer, value) in [
            ("/extra", json!(1)),
            ("/format_version", json!(2)),
            ("/servers/0/extra", json!(1)),
            ("/servers/0/ladders/0/ladder", json!("height")),
            ("/servers/0/ladders/0/verdicts", json!(["perhaps"])),
            ("/servers/0/ladders/0/steps/0/size", json!(-1)),
            ("/servers/0/ladders/0/steps/0/outcome", json!("odd")),
            ("/servers/0/neighbour/median_ms", json!(null)),
        ] {
            let broken = contract::with_member(&parsed, pointer, value);
            assert!(check(&broken).is_err(), "{pointer} passed");
        }
    }

    #[test]
    fn other_files_are_refused_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.json");
        for (text, message) in [
            ("{", "EOF"),
            (
                r#"{"format": "sobench-preflight", "format_version": 1, "servers": []}"#,
                "its format is",
            ),
            (
                r#"{"format": "sobench-preflight-limits", "format_version": 2, "servers": []}"#,
                "format version is 2",
            ),
            (
                r#"{"format": "sobench-preflight-limits", "format_version": 1, "servers": []}"#,
                "has no servers",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err();
            assert!(
                error.what.contains(message) && error.hint.is_some() && error.exit_code() == 2,
                "{error}"
            );
        }
    }
}
