//! Reads the file of `sobench explain`: constraints in the forms of requests, tools, OpenAPI
//! documents, run logs, datasets and plain text.
//!
//! The form is detected from the content. The file name only decides about text that could be
//! several things, and separates a dataset of one row from a document.

use std::path::Path;

use serde_json::{Map, Value, json};

use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result};
use sobench_core::input::json::message_without_line;
use sobench_core::input::{self, lines};
use sobench_core::printable::{NAME_CHARS, printable};
use sobench_core::schema_keywords::{LITERAL_KEYWORDS, NAME_MAPS};
use sobench_core::schema_part::pointer_name;
pub use sobench_data::request_body::Part;
use sobench_data::request_body::{Field, fields, format, is_schema, is_tool, label, part, tools};
use sobench_runlog::RunLog;

/// The largest file, in bytes: its parsed form may need fifty times as much memory.
const MAX_BYTES: u64 = 20_000_000;
/// The most ids or names that a hint lists.
const MAX_LISTED: usize = 10;
/// The hint of every file without a constraint.
const FORMS_HINT: &str = "give a JSON Schema, a list of tools, a request body, an OpenAPI document, a run log, rows of JSON Lines, a grammar or a regular expression; as JSON, not YAML";

/// Where OpenAPI documents have their schemas, as a reference and as a JSON pointer.
const COMPONENTS: (&str, &str) = ("#/components/schemas/", "/components/schemas");

/// Values that only rows have, beside those in `constraint`.
const ROW_VALUES: [&str; 4] = ["/json", "/schema", "/json_object", "/choice"];

/// Members of rows with their names: of datasets, and of OpenAI's batch files.
const ID_MEMBERS: [&str; 3] = ["id", "name", "custom_id"];

/// Members of complete request bodies.
const BODY_MARKS: [&str; 4] = ["messages", "prompt", "input", "sampling_params"];

/// What is explained: one constraint, and how it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// For people: `schema.json`, `run.jsonl, case json-15`, `request.json, tools`.
    pub name: String,
    pub part: Part,
    /// The whole request body, if the file is one, and the JSON pointer in it of the part. The
    /// body may hold a schema as a string, and tools in the form of the responses endpoint.
    pub body: Option<(Map<String, Value>, String)>,
}

/// The form of a file.
enum Form {
    RunLog,
    Rows(String),
    OpenApi(Value),
    Document(Value),
    Text(Constraint),
}

/// Reads the constraints of a file. `case` is the id of a request in a run log, or the id or line
/// number of a row. `component` is the name of a schema in an OpenAPI document.
///
/// # Errors
/// Usage errors: the file is unreadable, empty or too large, it has no constraint, or `case` or
/// `component` is missing, unknown or without use.
pub fn read(path: &Path, case: Option<&str>, component: Option<&str>) -> Result<Vec<Subject>> {
    let name = &*path.file_name().unwrap_or_default().to_string_lossy();
    if input::open(path, u64::MAX)?.1 > MAX_BYTES {
        return Err(Error::usage(format!("larger than 20 MB: {name}"))
            .hint("give a file with only the constraint"));
    }
    let form = match RunLog::is_run_log(path)? {
        true => Form::RunLog,
        false => form(path, name)?,
    };
    let unused = match form {
        Form::RunLog | Form::Rows(_) => component.map(|_| "--component"),
        Form::OpenApi(_) => case.map(|_| "--case"),
        _ => case.map(|_| "--case").or(component.map(|_| "--component")),
    };
    if let Some(flag) = unused {
        return Err(Error::usage(format!("{flag} without use for this file: {name}")).hint(
            "use --case with a run log or rows of JSON Lines, and --component with an OpenAPI document",
        ));
    }
    match form {
        Form::RunLog => run_log(&RunLog::read(path)?, name, case),
        Form::Rows(text) => rows(&text, name, case),
        Form::OpenApi(document) => open_api(&document, component, name),
        Form::Document(document) => subjects(&document, name, false),
        Form::Text(constraint) => Ok(single(name, Part::Text(constraint))),
    }
}

fn single(name: impl Into<String>, part: Part) -> Vec<Subject> {
    let (name, body) = (name.into(), None);
    vec![Subject { name, part, body }]
}

/// Reads a file that is not a run log.
fn form(path: &Path, name: &str) -> Result<Form> {
    let text = input::read_text(path, MAX_BYTES)?;
    if text.trim().is_empty() {
        return Err(Error::usage(format!("empty file: {name}")).hint(FORMS_HINT));
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let grammar = |dialect| {
        let text = text.as_str().into();
        Ok(Form::Text(Constraint::Grammar { dialect, text }))
    };
    // Without its last newline, which editors add.
    let regex = || {
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        Ok(Form::Text(Constraint::Regex(text.into())))
    };
    let (mut is_rows_name, mut is_json_name) = (false, false);
    match extension.to_ascii_lowercase().as_str() {
        "lark" => return grammar(GrammarDialect::Lark),
        "ebnf" | "gbnf" => return grammar(GrammarDialect::Ebnf),
        "regex" | "re" => return regex(),
        "jsonl" | "ndjson" => (is_rows_name, is_json_name) = (true, true),
        "json" => is_json_name = true,
        _ => {}
    }
    let is_line = lines(&text).nth(1).is_none();
    let is_lark_start = |(_, line): (_, &str)| {
        let rule = line.trim_start_matches(['?', '!']).strip_prefix("start");
        rule.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let is_row = |(_, line)| serde_json::from_str::<Map<_, _>>(line).is_ok();
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(_)) if is_rows_name && is_line => Ok(Form::Rows(text)),
        Ok(value) if value.get("openapi").or(value.get("swagger")).is_some() => {
            Ok(Form::OpenApi(value))
        }
        Ok(value @ (Value::Object(_) | Value::Array(_) | Value::Bool(_))) => {
            Ok(Form::Document(value))
        }
        Ok(_) if is_json_name => Err(unknown(name)),
        Err(error) if is_json_name || text.trim_start().starts_with(['{', '[']) => {
            if !is_line && lines(&text).next().is_some_and(is_row) {
                return Ok(Form::Rows(text));
            }
            Err(Error::usage(format!("{name}: not JSON: {error}"))
                .hint("correct the JSON, or name the file .regex if it is a regular expression"))
        }
        _ if GrammarDialect::detect(&text) == GrammarDialect::Ebnf => grammar(GrammarDialect::Ebnf),
        _ if lines(&text).any(is_lark_start) => grammar(GrammarDialect::Lark),
        _ if is_line => regex(),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    Error::usage(format!("no constraint found: {name}")).hint(FORMS_HINT)
}

/// The constraints of a JSON value that is not an OpenAPI document. A row is a request body only if
/// it has a `model`: rows of datasets have prompts too.
fn subjects(value: &Value, name: &str, is_row: bool) -> Result<Vec<Subject>> {
    let wrong = |error: String| Error::usage(format!("{name}: {error}")).hint(FORMS_HINT);
    if let Some((part, _)) = format(value).map_err(wrong)? {
        return Ok(single(name, part));
    }
    let is_list = is_tool(value) || value.is_array();
    let list = value.get("result").or(is_list.then_some(value));
    if let Some(tools) = list.and_then(tools) {
        return Ok(single(name, Part::Tools(tools)));
    }
    let fields = fields(value).map_err(wrong)?;
    let is_request = BODY_MARKS.iter().any(|mark| value.get(mark).is_some());
    if fields.is_empty() {
        return match value {
            _ if is_schema(value) => Ok(single(name, Part::Schema(value.clone()))),
            _ if is_request => Err(Error::usage(format!("request without a constraint: {name}")).hint(
                "add tools, response_format, structured_outputs or the like at the top level (not in extra_body)",
            )),
            _ => Err(unknown(name)),
        };
    }
    let of_row = |(pointer, ..): &Field| {
        pointer.starts_with("/constraint/") || ROW_VALUES.contains(&pointer.as_str())
    };
    let has_body =
        is_request && !fields.iter().any(of_row) && (!is_row || value.get("model").is_some());
    let body = value.as_object().filter(|_| has_body);
    let is_named = has_body || fields.len() > 1;
    let with_name = |(pointer, suffix, part): Field| Subject {
        name: match is_named {
            true => format!("{name}, {}", label(&pointer)),
            false => name.to_owned(),
        },
        part,
        body: body.map(|body| (body.clone(), format!("{pointer}{suffix}"))),
    };
    Ok(fields.into_iter().map(with_name).collect())
}

/// A schema of an OpenAPI document, with the other ones that it needs.
fn open_api(document: &Value, component: Option<&str>, name: &str) -> Result<Vec<Subject>> {
    let schemas = document.pointer(COMPONENTS.1).and_then(Value::as_object);
    let Some(schemas) = schemas.filter(|schemas| !schemas.is_empty()) else {
        let what = format!("no components.schemas in the OpenAPI document: {name}");
        return Err(Error::usage(what).hint("give a document of OpenAPI 3, or the schema itself"));
    };
    let mut names: Vec<&String> = schemas.keys().collect();
    let component = component.ok_or_else(|| {
        let hint = format!("choose one with --component NAME: {}", listed(&names));
        Error::usage(format!("OpenAPI document with several schemas: {name}")).hint(hint)
    })?;
    let Some(schema) = schemas.get(component) else {
        let similarity = |known: &str| strsim::jaro_winkler(known, component);
        names.sort_by(|a, b| similarity(b).total_cmp(&similarity(a)));
        names.truncate(3);
        return Err(Error::usage(format!("unknown component: {component}"))
            .hint(format!("similar names: {}", listed(&names))));
    };
    let schema = with_definitions(schema.clone(), schemas);
    let name = format!("{name}, component {component}");
    Ok(single(name, Part::Schema(schema)))
}

/// Adds the components that a schema refers to, directly or not, as its `$defs`.
fn with_definitions(mut schema: Value, components: &Map<String, Value>) -> Value {
    let mut needed = Vec::new();
    rewrite_references(&mut schema, false, &mut needed);
    let mut definitions = Map::new();
    while let Some(name) = needed.pop() {
        if let (false, Some(component)) = (definitions.contains_key(&name), components.get(&name)) {
            let mut component = component.clone();
            rewrite_references(&mut component, false, &mut needed);
            definitions.insert(name, component);
        }
    }
    if let (Value::Object(members), false) = (&mut schema, definitions.is_empty())
        && let Value::Object(own) = members.entry("$defs").or_insert_with(|| json!({}))
    {
        own.extend(definitions);
    }
    schema
}

/// Changes references to components into references to `$defs`, and adds their names.
fn rewrite_references(value: &mut Value, is_name_map: bool, needed: &mut Vec<String>) {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| rewrite_references(item, false, needed)),
        Value::Object(members) => {
            for (name, value) in members {
                if is_name_map {
                    rewrite_references(value, false, needed);
                } else if let ("$ref", Value::String(reference)) = (name.as_str(), &mut *value) {
                    if let Some(target) = reference.strip_prefix(COMPONENTS.0) {
                        let token = target.split('/').next().unwrap_or_default();
                        needed.push(pointer_name(token));
                        *reference = format!("#/$defs/{target}");
                    }
                } else if !LITERAL_KEYWORDS.contains(&name.as_str()) {
                    rewrite_references(value, NAME_MAPS.contains(&name.as_str()), needed);
                }
            }
        }
        _ => {}
    }
}

/// The constraint of a request of a run log.
fn run_log(log: &RunLog, name: &str, case: Option<&str>) -> Result<Vec<Subject>> {
    let constrained = || {
        let requests = log.requests.iter();
        requests.filter_map(|request| Some((request.id(), request.constraint()?)))
    };
    let is_chosen = |(id, _): &(String, _)| case.map_or(log.requests.len() == 1, |case| id == case);
    match constrained().find(is_chosen) {
        Some((id, constraint)) => Ok(single(format!("{name}, case {id}"), part(constraint))),
        None => Err(choose(name, case, constrained().map(|(id, _)| id))),
    }
}

/// The constraints of a row of JSON Lines: of a dataset, of answers to be scored, or of requests.
fn rows(text: &str, name: &str, case: Option<&str>) -> Result<Vec<Subject>> {
    let is_single = lines(text).nth(1).is_none();
    let (mut numbered, mut known) = (None, Vec::new());
    for (number, line) in lines(text) {
        let row: Value = serde_json::from_str(line).map_err(|error| {
            let message = message_without_line(&error);
            Error::usage(format!("{name}, line {number}: not JSON: {message}"))
                .hint("correct or remove this line")
        })?;
        let id = |name| {
            row.get(name)
                .map(|id| id.as_str().map_or(id.to_string(), str::to_owned))
        };
        let ids: Vec<_> = ID_MEMBERS.into_iter().filter_map(id).collect();
        if let Some(id) = ids.iter().find(|id| Some(id.as_str()) == case) {
            return row_subjects(&row, &format!("{name}, case {id}"));
        }
        let number = number.to_string();
        if case.map_or(is_single, |case| case == number) {
            numbered = Some((number, row));
        } else if known.len() <= MAX_LISTED && row_subjects(&row, name).is_ok() {
            known.push(ids.into_iter().next().unwrap_or(number));
        }
    }
    match numbered {
        Some((number, row)) => row_subjects(&row, &format!("{name}, line {number}")),
        None => Err(choose(name, case, known)),
    }
}

/// The constraints of one row. OpenAI's batch files have a request body in each.
fn row_subjects(row: &Value, name: &str) -> Result<Vec<Subject>> {
    let body = row.get("body").filter(|body| body.is_object());
    subjects(body.unwrap_or(row), name, true)
}

/// The error for a file of several requests of which none is chosen.
fn choose(name: &str, case: Option<&str>, known: impl IntoIterator<Item = String>) -> Error {
    let known = listed(known);
    match case {
        _ if known.is_empty() => return unknown(name),
        Some(case) => Error::usage(format!("no constrained request {case}: {name}")),
        None => Error::usage(format!("several requests or rows: {name}")),
    }
    .hint(format!("choose one with --case ID: {known}"))
}

/// The first names of a list, for a hint.
fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let first = names.into_iter().take(MAX_LISTED + 1);
    let mut shown: Vec<String> = first
        .map(|name| printable(name.as_ref(), NAME_CHARS))
        .collect();
    if shown.len() > MAX_LISTED {
        shown[MAX_LISTED] = "…".to_owned();
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `file [--case=ID] [--component=NAME] content => subjects`. A subject is its name, the
    /// pointer into its body, and its constraint. `!` precedes parts of an error, `⏎` is a line
    /// end, `␣` is 20 MB of white space, and fixtures exist.
    const TABLE: &str = r##"
schema.json {"maximum":1.0,"$ref":"#/x"} => schema.json: {"maximum":1.0,"$ref":"#/x"}
empty.json {} => empty.json: {}
all.txt true⏎ => all.txt: true
email.json {"type":"string","format":"email"} => email.json: {"type":"string","format":"email"}
a.json {"type":"json_schema","json_schema":{"name":"n","schema":{"type":"null"},"strict":true}} => a.json: {"type":"null"}
b.json {"name":"n","schema":{"type":"null"}} => b.json: {"type":"null"}
c.json {"format":{"type":"json_schema","schema":{"type":"null"}}} => c.json: {"type":"null"}
d.json {"response_format":{"type":"json_object"}} => d.json: text {"json_object":true}
f.json {"type":"json_schema","json_schema":{}} => ! f.json: a format json_schema without a schema
json.json {"json":{"type":"null"}} => json.json: {"type":"null"}
regex.json {"regex":"a+"} => regex.json: text {"regex":"a+"}
grammar.json {"grammar":{"dialect":"lark","text":"start: A"}} => grammar.json: text {"grammar":{"dialect":"lark","text":"start: A"}}
tag.json {"structural_tag":{"format":{}}} => tag.json: text {"structural_tag":{"format":{}}}
tools.json {"tools":{"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto"}} => tools.json: [{"type":"function","function":{"name":"f"}}]
chat.json {"messages":[],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"null"}}},"tools":[{"type":"function","function":{"name":"a b"}}]} => chat.json, tools: @/tools [{"type":"function","function":{"name":"a b"}}] & chat.json, response_format: @/response_format/json_schema/schema {"type":"null"}
tag.json {"messages":[],"response_format":{"type":"structural_tag","format":{}}} => tag.json, response_format: @/response_format text {"structural_tag":{"type":"structural_tag","format":{}}}
vllm.json {"prompt":"","structured_outputs":{"json":"{\"type\":\"null\"}","regex":null}} => vllm.json, structured_outputs.json: @/structured_outputs/json {"type":"null"}
vllm.json {"messages":[],"structured_outputs":{"choice":["a"]}} => vllm.json, structured_outputs.choice: @/structured_outputs/choice text {"choice":["a"]}
old.json {"messages":[],"guided_grammar":"root ::= \"a\""} => old.json, guided_grammar: @/guided_grammar text {"grammar":{"dialect":"ebnf","text":"root ::= \"a\""}}
old.json {"messages":[],"guided_json":{},"guided_regex":"a"} => old.json, guided_json: @/guided_json {} & old.json, guided_regex: @/guided_regex text {"regex":"a"}
llama.json {"prompt":"","json_schema":{"type":"null"}} => llama.json, json_schema: @/json_schema {"type":"null"}
sglang.json {"text":"","sampling_params":{"regex":"a"}} => sglang.json, sampling_params.regex: @/sampling_params/regex text {"regex":"a"}
ollama.json {"model":"m","messages":[],"format":{"type":"null"}} => ollama.json, format: @/format {"type":"null"}
ollama.json {"model":"m","prompt":"","format":"json"} => ollama.json, format: @/format text {"json_object":true}
new.json {"input":"","text":{"format":{"type":"json_schema","name":"n","schema":{"type":"null"}}},"tools":[{"type":"function","name":"f","strict":true},{"type":"web_search"}]} => new.json, tools: @/tools [{"type":"function","function":{"name":"f","strict":true}},{"type":"web_search"}] & new.json, text.format: @/text/format/schema {"type":"null"}
none.json {"messages":[],"extra_body":{"guided_json":{}}} => ! request without a constraint: none.json & not in extra_body
bad.json {"messages":[],"guided_choice":[]} => ! bad.json: guided_choice: choice must have at least one string
bad.json {"messages":[],"guided_json":"{"} => ! guided_json: the string is not JSON
list.json [{"type":"function","function":{"name":"f"}},{"type":"custom","name":"c"}] => list.json: [{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"c"}}]
mcp.json {"tools":[{"name":"f","description":"d","inputSchema":{"type":"object"},"annotations":{}}]} => mcp.json: [{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]
rpc.json {"jsonrpc":"2.0","id":1,"result":{"tools":[{"inputSchema":{}}]}} => rpc.json: [{"type":"function","function":{"parameters":{}}}]
api.json --component=A {"openapi":"3.1.0","components":{"schemas":{"A":{"properties":{"enum":{"$ref":"#/components/schemas/B"}},"enum":[{"$ref":"#/components/schemas/D"}]},"B":{"nullable":true,"items":{"$ref":"#/components/schemas/A"}},"C":{}}}} => api.json, component A: {"properties":{"enum":{"$ref":"#/$defs/B"}},"enum":[{"$ref":"#/components/schemas/D"}],"$defs":{"B":{"nullable":true,"items":{"$ref":"#/$defs/A"}},"A":{"properties":{"enum":{"$ref":"#/$defs/B"}},"enum":[{"$ref":"#/components/schemas/D"}]}}}
api.json {"openapi":"3.0.0","components":{"schemas":{"Cat":{},"Dog":{}}}} => ! --component NAME: Cat, Dog
api.json --component=Kat {"openapi":"3.0.0","components":{"schemas":{"Dog":{},"Cat":{}}}} => ! unknown component: Kat & similar names: Cat, Dog
api.json {"swagger":"2.0","definitions":{"A":{}}} => ! no components.schemas & OpenAPI 3
schema.json --component=A {} => ! --component without use for this file: schema.json
schema.json --case=A {} => ! --case without use
rows.jsonl {"prompt":"p","json_schema":"{\"type\":\"null\"}"} => rows.jsonl, line 1: {"type":"null"}
rows.jsonl --case=b {"id":"a","regex":"a"}⏎{"id":"b","constraint":{"choice":["x"]},"text":"x"} => rows.jsonl, case b: text {"choice":["x"]}
rows.txt --case=3 {"prompt":"p","schema":{}}⏎⏎{"messages":[],"type":"x","tools":[{"type":"function","function":{}}]} => rows.txt, line 3: [{"type":"function","function":{}}]
batch.jsonl --case=r {"custom_id":"r","body":{"model":"m","messages":[],"guided_json":{}}} => batch.jsonl, case r, guided_json: @/guided_json {}
rows.jsonl {"id":7,"json":{}}⏎{"id":"x"}⏎{"regex":"a"} => ! several requests or rows: rows.jsonl & --case ID: 7, 3
rows.jsonl {"json":{}}⏎{"json":} => ! rows.jsonl, line 2: not JSON & column 9
a.gbnf {x} => a.gbnf: text {"grammar":{"dialect":"ebnf","text":"{x}"}}
a.lark a ::= b => a.lark: text {"grammar":{"dialect":"lark","text":"a ::= b"}}
a.txt # c⏎root ::= "a" => a.txt: text {"grammar":{"dialect":"ebnf","text":"# c\nroot ::= \"a\""}}
a.txt A: "a"⏎?start: A => a.txt: text {"grammar":{"dialect":"lark","text":"A: \"a\"\n?start: A"}}
a.re [0-9]⏎ => a.re: text {"regex":"[0-9]"}
a.txt \d+⏎⏎ => a.txt: text {"regex":"\\d+\n"}
a.txt a⏎b => ! no constraint found: a.txt & not YAML
a.txt [a-z] => ! a.txt: not JSON & line 1 column 2 & .regex
a.json {⏎"a": => ! not JSON & line 2 column 4
a.json "type": 1 => ! not JSON & line 1 column 7
a.json "text" => ! no constraint found: a.json
a.txt ⏎  => ! empty file: a.txt
none.txt  => ! cannot read
big.json ␣ => ! larger than 20 MB: big.json
fixtures/frozen/runs/mix.jsonl --case=choice-6  => mix.jsonl, case choice-6: text {"choice":["Positive","Negative"]}
fixtures/frozen/runs/mix.jsonl --case=sharegpt-5  => ! no constrained request sharegpt-5 & --case ID: json-1, json-3, grammar-4
fixtures/frozen/runs/no-constraint.jsonl  => ! several requests & --case ID: json-0, json-1, json-2
fixtures/frozen/runs/plain.jsonl  => ! no constraint found: plain.jsonl
"##;

    fn shown(subject: &Subject) -> String {
        let part = match &subject.part {
            Part::Schema(schema) => schema.to_string(),
            Part::Tools(tools) => Value::from(tools.clone()).to_string(),
            Part::Text(constraint) => format!("text {}", serde_json::to_value(constraint).unwrap()),
        };
        let pointer = match &subject.body {
            None => String::new(),
            Some((body, pointer)) => match Value::from(body.clone()).pointer(pointer) {
                Some(_) => format!("@{pointer} "),
                None => panic!("{pointer}"),
            },
        };
        format!("{}: {pointer}{part}", subject.name)
    }

    #[test]
    fn every_form_of_a_constraint_is_read() {
        let folder = tempfile::tempdir().unwrap();
        for row in TABLE.trim().lines() {
            let (given, expected) = row.split_once(" => ").unwrap();
            let (file, mut content) = given.split_once(' ').unwrap();
            let mut flag = |name: &str| {
                let (value, rest) = content.strip_prefix(name)?.split_once(' ')?;
                content = rest;
                Some(value)
            };
            let (case, component) = (flag("--case="), flag("--component="));
            let blanks = " ".repeat(20_000_001);
            let content = content.replace('⏎', "\n").replace('␣', &blanks);
            let mut path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            if !content.is_empty() {
                path = folder.path().join(file);
                std::fs::write(&path, content).unwrap();
            }
            let found = match read(&path, case, component) {
                Ok(subjects) => subjects.iter().map(shown).collect::<Vec<_>>().join(" & "),
                Err(error) => format!("! {error}"),
            };
            match expected.strip_prefix("! ") {
                Some(parts) => {
                    let has_all = parts.split(" & ").all(|part| found.contains(part));
                    assert!(found.starts_with('!') && has_all, "{row}\n{found}");
                }
                None => assert_eq!(found, expected, "{row}"),
            }
        }
    }
}
