//! The files of `--save`: a folder for a bug report, or one file.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::ExplainArgs;
use super::cause::Limit;
use super::explanation::{Explained, Explanation};
use super::failure::Failure;
use super::input::Part;
use super::json::ExplainFile;
use super::report::{self, place_text};
use crate::commands::output::{CommandOutput, check_writable, pretty};
use sobench_backend::ServerKind;
use sobench_core::error::{Error, Result};
use sobench_core::output_files::refuse_foreign;

/// The files of a folder.
const IN_FOLDER: [&str; 4] = ["minimal.json", "request.json", "curl.sh", "issue.md"];

/// The paths of `--save`.
pub(super) struct Saved {
    paths: Vec<PathBuf>,
    input: String,
    /// For `curl.sh`; `None` for the embedded engines.
    url: Option<String>,
    kind: Option<ServerKind>,
}

impl Saved {
    /// Checks that all can be written.
    ///
    /// # Errors
    /// One cannot.
    pub(super) fn new(flags: &ExplainArgs) -> Result<Self> {
        let paths: Vec<PathBuf> = flags.save.iter().map(|path| path.to_path_buf()).collect();
        let has_other_extension =
            |path: &&PathBuf| path.extension().is_some() && !is_file(path) && !path.is_dir();
        if let Some(path) = paths.iter().find(has_other_extension) {
            let what = format!("--save has no format for this name: {}", path.display());
            return Err(Error::usage(what).hint("end it in .json or .sarif, or name a folder"));
        }
        if !flags.force.force {
            // The command line only knows the folder.
            let mut inside = paths
                .iter()
                .filter(|path| !is_file(path))
                .flat_map(|path| files_of(path));
            inside.try_for_each(|path| refuse_foreign(&path, "--save"))?;
        }
        let all = paths.iter().flat_map(|path| files_of(path));
        check_writable(all.collect::<Vec<_>>().iter().map(PathBuf::as_path))?;
        Ok(Self {
            paths,
            input: flags.file.display().to_string(),
            url: flags.target.base_url.first().map(ToString::to_string),
            kind: flags.target.backend,
        })
    }

    /// Writes the files. Without a cause, a folder has no files.
    pub(super) fn write(&self, found: &[Explanation], output: &mut CommandOutput) {
        for path in &self.paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("sarif") => output.write(path, &pretty(&report::sarif(found, &self.input))),
                Some("json") => output.write(path, &pretty(&ExplainFile::new(found))),
                _ => self.write_folder(path, found, output),
            }
        }
    }

    fn write_folder(&self, folder: &Path, found: &[Explanation], output: &mut CommandOutput) {
        let first = found
            .iter()
            .find_map(|found| Some((found, found.causes.first()?)));
        let Some((explanation, explained)) = first else {
            output.lines.push(format!(
                "nothing to write to {}: no cause was found",
                folder.display()
            ));
            return;
        };
        let minimal = explained.cause.minimal.to_json();
        let request = explanation.request.clone().unwrap_or(Value::Null);
        let curl = curl(&request, self.kind, self.url.as_deref());
        let anonymous = explained.cause.anonymous.as_ref().map(Part::to_json);
        let issue = issue(
            explanation,
            explained,
            anonymous.as_ref().unwrap_or(&minimal),
        );
        for (path, text) in
            files_of(folder)
                .into_iter()
                .zip([pretty(&minimal), pretty(&request), curl, issue])
        {
            output.write(&path, &text);
        }
    }
}

/// Whether a path of `--save` is one file, and not a folder.
fn is_file(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("sarif" | "json"))
}

fn files_of(path: &Path) -> Vec<PathBuf> {
    match is_file(path) {
        true => vec![path.to_path_buf()],
        false => IN_FOLDER.map(|name| path.join(name)).to_vec(),
    }
}

/// A script that sends the request. The key comes from the environment.
fn curl(request: &Value, kind: Option<ServerKind>, url: Option<&str>) -> String {
    let url = url.unwrap_or("http://127.0.0.1:8000");
    let kind = kind.unwrap_or(match (request.get("messages"), request.get("input")) {
        (Some(_), _) => ServerKind::OpenaiChat,
        (_, Some(_)) => ServerKind::OpenaiResponses,
        _ => ServerKind::Openai,
    });
    let is_streamed = request["stream"] == true;
    let (path, credentials) = (kind.path(is_streamed), kind.credentials());
    let variable = credentials.variable;
    let others = credentials.curl_headers();
    format!(
        "#!/bin/sh\n# Sends the smallest request that fails. {variable} is the key, if one is needed.\n\
         cd \"$(dirname \"$0\")\" || exit\ncurl -sS \"${{BASE_URL:-{}}}{path}\" -H 'Content-Type: application/json'{others} \\\n  \
         -H \"Authorization: Bearer ${{{variable}:-none}}\" --data-binary @request.json\n",
        url.trim_end_matches('/').trim_end_matches("/v1")
    )
}

/// A bug report.
fn issue(explanation: &Explanation, explained: &Explained, minimal: &Value) -> String {
    let Explained { cause, engines, .. } = explained;
    let places: Vec<String> = cause.places.iter().map(place_text).collect();
    let title = match places.is_empty() {
        true => minimal.to_string(),
        false => places.join(" with "),
    };
    let limit = cause.limit.as_ref().map_or_else(String::new, |limit| {
        let Limit {
            of,
            accepted_at,
            fails_at,
        } = limit;
        format!("\nIt is accepted at {accepted_at} ({of}), and fails at {fails_at}.\n")
    });
    let expected = match cause.failure {
        Failure::Refused { .. } => {
            "The constraint is accepted, or the documentation says that it is not."
        }
        _ => "An answer as fast as with similar constraints, or an error that names the part.",
    };
    let section = |title: &str, lines: Vec<String>| match lines.is_empty() {
        true => String::new(),
        false => format!("\n## {title}\n{}", lines.concat()),
    };
    let engines = engines
        .iter()
        .map(|(name, says)| format!("- {name} {says}\n"));
    let others = explanation
        .causes
        .iter()
        .filter(|other| *other.cause.places != *cause.places);
    let others = others.flat_map(|other| other.cause.places.iter().map(place_text));
    format!(
        "# {word}: {title}\n\n## Version\n{version} (found with sobench {sobench})\n\n\
         ## Input\n```json\n{minimal}\n```\n{limit}\n## To reproduce\nsh curl.sh, which sends request.json\n\n\
         ## Expected\n{expected}\n\n## Actual\n{failure}\n{engines}{others}",
        word = cause.failure.word(),
        version = explanation.version,
        sobench = env!("CARGO_PKG_VERSION"),
        failure = cause.failure,
        engines = section("Other engines", engines.collect()),
        others = section(
            "Other parts of the same schema that fail",
            others.map(|place| format!("- {place}\n")).collect()
        ),
    )
}
