//! A shell line that sends one request of a run again with curl: the body as the run's adapter
//! writes it, without secrets.

use std::fmt::Write as _;

use sobench_backend::{self as backend, BodySettings, ConstraintDialect, ServerKind};
use sobench_core::case::Case;
use sobench_plan::record::RunRecord;

/// Bytes of the longest body in a line: Linux takes 128 KiB in one argument of a command.
const BODY_MAX_BYTES: usize = 100_000;

/// Fields needed to send requests of a run again.
#[derive(Clone, Debug)]
pub struct Resend {
    kind: ServerKind,
    options: BodySettings,
    url: String,
    /// Names of the user's headers; their values are secrets.
    header_names: Vec<String>,
    /// Whether the server was started for the run and has ended.
    pub server_is_gone: bool,
}

impl Resend {
    /// Reads it from a record. `server_is_gone` is whether the server ended with the run.
    pub fn new(record: &RunRecord, server_is_gone: bool) -> Self {
        let RunRecord {
            settings, server, ..
        } = record;
        Self {
            kind: settings.backend,
            options: BodySettings {
                model: server.model.clone(),
                stream: settings.request.stream,
                sampling: settings.request.sampling.clone(),
                ignore_eos: settings.request.ignore_eos,
                // Kinds of servers without constraints have no dialect.
                dialect: server
                    .constraint_dialect
                    .unwrap_or(ConstraintDialect::StructuredOutputs),
                guided_decoding_backend: server.engine_choice.value().map(str::to_owned),
                thinking: settings.backend.thinking_switch_for(&settings.dataset.arms),
                max_tokens_only: server.max_tokens_only,
                extra_body: settings.request.extra_body.clone(),
            },
            url: url(&server.base_url, &server.endpoint),
            header_names: server.header_names.clone(),
            server_is_gone,
        }
    }

    /// The shell line.
    ///
    /// # Errors
    /// The reason why there is no line.
    pub fn line(&self, case: &Case) -> Result<String, String> {
        let adapter = backend::adapter(self.kind);
        let body = adapter
            .encode(case, &self.options)
            .map_err(|unsendable| format!("the request was not sent: {}", unsendable.what))?;
        let Some(body) = std::str::from_utf8(&body)
            .ok()
            .filter(|_| adapter.content_type() == "application/json")
        else {
            return Err(
                "the body is a form with a file, which does not fit into a shell line".to_owned(),
            );
        };
        if body.len() > BODY_MAX_BYTES {
            return Err(format!(
                "the body has {} bytes, too many for a command line",
                body.len()
            ));
        }
        let mut line = format!(
            "curl -sS -N {} -H 'Content-Type: application/json'",
            quoted(&self.url)
        );
        let credentials = self.kind.credentials();
        line.push_str(&credentials.curl_headers());
        // A header of the user replaces the API key, as in the run.
        let mut names = self.header_names.iter();
        let has_own = names.any(|name| name.eq_ignore_ascii_case("authorization"));
        if !self.server_is_gone && !has_own {
            let variable = credentials.variable;
            let _ = write!(line, " -H \"Authorization: Bearer ${variable}\"");
        }
        for name in &self.header_names {
            let _ = write!(line, " -H {}", quoted(&format!("{name}: ***")));
        }
        let _ = write!(line, " --data-binary {}", quoted(&without_controls(body)));
        Ok(line)
    }
}

/// The URL that the client uses: a base URL that ends in `/v1` gets no second one.
fn url(base_url: &str, path: &str) -> String {
    let (root, path) = (base_url.trim_end_matches('/'), path.trim_start_matches('/'));
    let path = if root.ends_with("/v1") {
        path.strip_prefix("v1/").unwrap_or(path)
    } else {
        path
    };
    format!("{root}/{path}")
}

/// One argument for `sh` (POSIX.1-2017, "Shell Command Language", 2.2.2): in single quotes, only
/// the quote itself is special.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The same JSON text with control characters and invisible characters escaped. They occur in
/// strings only.
fn without_controls(body: &str) -> String {
    let mut safe = String::with_capacity(body.len());
    for character in body.chars() {
        if character.is_control() || sobench_core::printable::is_invisible(character) {
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use sobench_core::case::Prompt;
    use sobench_core::constraint::Constraint;
    use sobench_plan::record::testing;

    fn record(header_names: &[&str]) -> RunRecord {
        let mut record = testing::record();
        record.server.base_url = "http://host:1/v1/".into();
        record.server.model = "served".into();
        record.server.header_names = header_names.iter().map(|name| (*name).to_owned()).collect();
        record
    }

    fn case(prompt: &str) -> Case {
        Case::new(
            "c-0",
            Prompt::Text(prompt.into()),
            Some(Arc::new(Constraint::Regex("it's".into()))),
            8,
        )
    }

    /// Reads the last argument of a line as `sh` does.
    fn body(line: &str) -> Value {
        let word = line.split_once("--data-binary ").unwrap().1;
        let text = word
            .strip_prefix('\'')
            .and_then(|word| word.strip_suffix('\''))
            .unwrap()
            .replace(r"'\''", "'");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_shell_line_has_the_body_and_no_secret() {
        let prompt = "it's `$(x)` \"q\" \\ \n\u{7f}\u{202e}é";
        let resend = Resend::new(&record(&["X-Team"]), false);
        let line = resend.line(&case(prompt)).unwrap();
        assert!(
            line.starts_with("curl -sS -N 'http://host:1/v1/completions' -H 'Content-Type: application/json' -H \"Auth"),
            "{line}"
        );
        assert!(
            line.contains(" -H 'X-Team: ***' ") && !line.contains(['\n', '\u{7f}', '\u{202e}']),
            "{line}"
        );
        let own = Resend::new(&record(&["authorization"]), false)
            .line(&case("x"))
            .unwrap();
        assert!(
            own.contains(" -H 'authorization: ***' ") && !own.contains("OPENAI_API_KEY"),
            "{own}"
        );
        let body = body(&line);
        assert_eq!(
            (&body["model"], &body["prompt"]),
            (&json!("served"), &json!(prompt))
        );
        assert_eq!(body["structured_outputs"]["regex"], "it's");
        assert_eq!(body["stream"], true);
    }

    #[test]
    fn requests_without_a_shell_line_have_a_reason() {
        let resend = Resend::new(&record(&[]), true);
        assert!(
            resend
                .line(&case(&"x".repeat(BODY_MAX_BYTES)))
                .unwrap_err()
                .contains("too many")
        );
        let mut odd = record(&[]);
        odd.settings.backend = ServerKind::Tgi;
        odd.server.constraint_dialect = Some(ConstraintDialect::TgiGrammar);
        let grammar = Constraint::StructuralTag(Arc::new(json!({})));
        let unsendable = Case {
            constraint: Some(Arc::new(grammar)),
            ..case("x")
        };
        assert!(
            Resend::new(&odd, true)
                .line(&unsendable)
                .unwrap_err()
                .starts_with("the request was not sent: ")
        );
    }
}
