//! The JSON file of `sobench-tools limits`, specified by `schemas/contracts/limits.schema.json`. Unknown values are `null`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::limits::{ServerLimits, Verdict};
use sobench_core::error::{Error, Result};
use sobench_core::input::read_text;
use sobench_core::json_struct;

/// The format and its version, increased when a key changes its meaning or is removed.
const FORMAT: &str = "sobench-limits";
const FORMAT_VERSION: u32 = 1;

/// Limit on the size of a file.
const MAX_FILE_BYTES: u64 = 64 << 20;

json_struct! {
    /// How large constraints may be before a server refuses them or takes too long. Unknown values
    /// are `null`.
    pub struct LimitsFile<'a> = |servers: &'a [ServerLimits]| {
        #[schemars(extend("const" = FORMAT))]
        format: &'static str = FORMAT,
        /// Raised when a key is removed or changes its meaning.
        format_version: u32 = FORMAT_VERSION,
        sobench_version: &'static str = env!("CARGO_PKG_VERSION"),
        servers: &'a [ServerLimits] = servers,
        /// What each verdict means.
        verdicts: BTreeMap<Verdict, &'static str> = Verdict::ALL.map(|known| (known, known.meaning())).into(),
    }
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
    const HINT: &str = "give files that `sobench-tools limits --save FILE.json` wrote";
    let text = read_text(path, MAX_FILE_BYTES)?;
    let invalid = |what: &dyn std::fmt::Display| {
        Error::usage(format!(
            "no result of sobench-tools limits ({what}): {}",
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

    #[test]
    fn files_are_read_back_and_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("limits.json");
        let read_back = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).map_err(|error| (error.what, error.hint.is_some()))
        };
        let text = serde_json::to_string(&LimitsFile::new(&servers())).unwrap();
        assert_eq!(read_back(&text), Ok(servers()));
        let name = path.display();
        for (text, what) in [
            ("{", "EOF while parsing an object at line 1 column 1"),
            (
                &text.replacen(FORMAT, "sobench-preflight", 1),
                "its format is \"sobench-preflight\"",
            ),
            (
                &text.replacen("\"format_version\":1", "\"format_version\":2", 1),
                "its format version is 2, and this version reads 1",
            ),
            (
                r#"{"format": "sobench-limits", "format_version": 1, "servers": []}"#,
                "it has no servers",
            ),
        ] {
            let message = format!("no result of sobench-tools limits ({what}): {name}");
            assert_eq!(read_back(text), Err((message, true)));
        }
    }
}
