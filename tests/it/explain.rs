//! `sobench explain` on servers with planted faults.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use sobench_core::constraint::Constraint;
use sobench_core::verdict::Verdict;
use sobench_judge::{Evaluator, JudgeSettings, judge_text};
use sobench_preflight::features::MARKS;
use sobench_preflight::instances::instances;
use sobench_testkit::chat::{ChatAnswer, ChatCall, ChatReply, chat_server, prompt};
use sobench_testkit::contract;
use sobench_testkit::scripted::{
    ScriptedServer, Then, models, refusing_url, wait_until_closed, whole,
};

use crate::support::{Folder, Ran, sobench, unwrapped};

/// Where the subschema of [`large`] is.
const DEEP: &str = "/properties/body/properties/options/properties/formats/items/properties/query";

/// Most bytes of a smallest input.
const SMALL: usize = 300;
const LONG: usize = 3500;

/// Most requests of the median cause and of any cause.
const MEDIAN_REQUESTS: usize = 25;
const WORST_REQUESTS: usize = 60;

const EXPLAIN_CONTRACT: &str = include_str!("../../schemas/contracts/explain.schema.json");

/// Programs that run at the same time.
const THREADS: usize = 4;

/// Whether a server refuses a constraint: a schema or tools.
type Rule = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

/// Keywords in [`large`]: a subschema, when it is refused, and the cause. `@` is [`DEEP`], and
/// `[of N]` stands for a limit that is accepted at N. Refused is `keyword`, `keyword & another` in
/// the same object, `keyword >= number`, or `keyword = part of its value`.
const KEYWORDS: &str = r##"
{"not":{"type":"null"}} ~ not ~ @/not
{"if":{"required":["a"]},"then":{"required":["b"]}} ~ if ~ @/if
{"type":"object","patternProperties":{"^a":{"type":"string"},"^b":{}}} ~ patternProperties ~ @/patternProperties
{"oneOf":[{"type":"string"},{"type":"null"},{"type":"integer"}]} ~ oneOf ~ @/oneOf
{"anyOf":[{"maxLength":3},{"type":"null"}]} ~ anyOf ~ @/anyOf
{"allOf":[{"minLength":3},{"maxLength":9}]} ~ allOf ~ @/allOf
{"type":"array","prefixItems":[{"type":"string"},{"type":"null"}]} ~ prefixItems ~ @/prefixItems
{"type":"object","dependentSchemas":{"a":{"required":["b"]}}} ~ dependentSchemas ~ @/dependentSchemas
{"type":"object","dependentRequired":{"a":["b"]}} ~ dependentRequired ~ @/dependentRequired
{"type":"object","propertyNames":{"pattern":"^a"}} ~ propertyNames ~ @/propertyNames
{"type":"object","dependencies":{"a":["b"],"c":["d"]}} ~ dependencies ~ @/dependencies
{"type":"object","unevaluatedProperties":false} ~ unevaluatedProperties ~ @ "unevaluatedProperties": false
{"type":"array","contains":{"const":1},"minContains":2} ~ contains ~ @/contains
{"type":"array","contains":{"const":1},"minContains":2} ~ minContains ~ @ "minContains": 2
{"type":"array","items":{"type":"string"},"uniqueItems":true} ~ uniqueItems ~ @ "uniqueItems": true
{"const":{"a":[1,2]}} ~ const ~ @/const
{"type":"string","format":"date"} ~ format ~ @ "format": "date"
{"type":"string","default":"x"} ~ default ~ @ "default": "x"
{"type":"string","readOnly":true} ~ readOnly ~ @ "readOnly": true
{"$schema":"http://json-schema.org/draft-04/schema#"} ~ $schema ~ @ "$schema": "http://json-schema.org/draft-04/schema#"
{"$ref":"#/properties/m3"} ~ $ref ~ @ "$ref": "#/properties/m3"
{"type":"string","maxLength":10000} ~ maxLength >= 2000 ~ @ "maxLength": 10000 [maxLength 1999]
{"type":"string","minLength":300} ~ minLength >= 129 ~ @ "minLength": 300 [minLength 128]
{"type":"array","maxItems":500,"minItems":3} ~ maxItems >= 101 ~ @ "maxItems": 500 [maxItems 100]
{"type":"array","maxItems":500,"minItems":3} ~ minItems >= 2 ~ @ "minItems": 3 [minItems 1]
{"type":"object","maxProperties":70} ~ maxProperties >= 65 ~ @ "maxProperties": 70 [maxProperties 64]
{"type":"integer","multipleOf":7} ~ multipleOf >= 4 ~ @ "multipleOf": 7 [multipleOf 3]
{"type":"integer","maximum":9007199254740993} ~ maximum >= 2147483648 ~ @ "maximum": 9007199254740993 [maximum 2147483647]
{"type":"integer","minimum":-5} ~ minimum = - ~ @ "minimum": -5
{"type":"number","multipleOf":0.01} ~ multipleOf = . ~ @ "multipleOf": 0.01
{"type":"string","pattern":"^(?=a)b$"} ~ pattern = (?= ~ @ "pattern": "^(?=a)b$"
{"type":["string","null"]} ~ type = [ ~ @
{"oneOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]} ~ type = null ~ @/oneOf/2
{"type":"string","pattern":"a","format":"date","maxLength":3} ~ pattern & format ~ @ "pattern": "a" with @ "format": "date"
{"type":"object","required":["x"],"minProperties":1} ~ required & minProperties ~ @ "required": ["x"] with @ "minProperties": 1
"##;

/// A planted cause.
struct Planted {
    input: Value,
    rule: Rule,
    /// The lines of the cause, as in [`KEYWORDS`].
    expected: String,
    most_bytes: usize,
}

fn planted(input: Value, rule: Rule, expected: &str) -> Planted {
    let expected = with_limit(expected).unwrap_or_else(|| expected.to_owned());
    Planted {
        input,
        rule,
        expected: unwrapped(&format!("cause {expected}")),
        most_bytes: SMALL,
    }
}

/// The cause with its limit in words, if it has one.
fn with_limit(expected: &str) -> Option<String> {
    let (cause, rest) = expected.rsplit_once(" [")?;
    let (limit, more) = rest.split_once(']')?;
    let (of, accepted) = limit.split_once(' ')?;
    let refused = accepted.parse::<u64>().ok()? + 1;
    Some(format!(
        "{cause} {of}: accepted at {accepted}, refused at {refused}{more}"
    ))
}

fn sized(input: Value, rule: Rule, expected: &str) -> Planted {
    Planted {
        most_bytes: LONG,
        ..planted(input, rule, expected)
    }
}

fn keywords() -> Vec<Planted> {
    let row = |row: &'static str| {
        let [inner, refused, expected] = row.split(" ~ ").collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let rule = match refused.split(' ').collect::<Vec<_>>()[..] {
            [keyword] => has(keyword),
            [keyword, "&", other] => when(move |members| {
                [keyword, other]
                    .iter()
                    .all(|name| members.contains_key(*name))
            }),
            [keyword, ">=", least] => at_least(keyword, least.parse().unwrap()),
            [keyword, "=", text] => value(keyword, move |value| value.to_string().contains(text)),
            _ => panic!("{row}"),
        };
        let inner: Value = serde_json::from_str(inner).unwrap();
        planted(large(inner), rule, expected)
    };
    KEYWORDS.trim().lines().map(row).collect()
}

/// Whether some object, at any place, is so.
fn any(value: &Value, is: &dyn Fn(&Map<String, Value>) -> bool) -> bool {
    match value {
        Value::Object(members) => is(members) || members.values().any(|inner| any(inner, is)),
        Value::Array(items) => items.iter().any(|inner| any(inner, is)),
        _ => false,
    }
}

fn when(is: impl Fn(&Map<String, Value>) -> bool + Send + Sync + 'static) -> Rule {
    Arc::new(move |given| any(given, &is))
}

fn value(keyword: &'static str, is: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Rule {
    when(move |members| members.get(keyword).is_some_and(&is))
}

fn has(keyword: &'static str) -> Rule {
    value(keyword, |_| true)
}

fn at_least(keyword: &'static str, least: u64) -> Rule {
    value(keyword, move |value| value.as_u64() >= Some(least))
}

/// Entries of a list or an object, or characters of a text.
fn longer(keyword: &'static str, most: usize) -> Rule {
    value(keyword, move |value| length(value) > most)
}

fn length(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::String(text) => text.chars().count(),
        _ => 0,
    }
}

fn names(tools: &Value) -> Vec<&str> {
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    tools
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect()
}

/// Levels of members with the name `n`.
fn depth(schema: &Value) -> usize {
    let inner = schema.pointer("/properties/n");
    inner.map_or(0, |inner| 1 + depth(inner))
}

fn members(range: std::ops::Range<usize>) -> Map<String, Value> {
    let leaf =
        |place| json!({"type": "string", "description": format!("member {place}"), "minLength": 1});
    range
        .map(|place| (format!("m{place}"), leaf(place)))
        .collect()
}

/// A schema of 49 members on three levels, with this one deep inside.
fn large(inner: impl Into<Value>) -> Value {
    let mut deep = members(30..45);
    let items = json!({"type": "object", "properties": {"query": inner.into()}});
    deep.insert(
        "formats".to_owned(),
        json!({"type": "array", "items": items}),
    );
    let mut middle = members(15..30);
    let options = json!({"type": "object", "properties": deep, "required": ["m30", "formats"]});
    middle.insert("options".to_owned(), options);
    let mut outer = members(0..15);
    let body = json!({"type": "object", "properties": middle, "additionalProperties": false});
    outer.insert("body".to_owned(), body);
    json!({"type": "object", "title": "Large", "properties": outer, "required": ["m0", "body"]})
}

fn tool(name: &str, parameters: &Value) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "does something", "parameters": parameters}})
}

/// Tools of which the one at a place is this one.
fn tools(count: usize, place: usize, special: Value) -> Value {
    let plain = json!({"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}, "required": ["path"]});
    let mut all: Vec<Value> = (0..count)
        .map(|index| tool(&format!("tool_{index}"), &plain))
        .collect();
    all[place] = special;
    all.into()
}

fn bare(name: &str) -> Value {
    tool(name, &json!({"type": "object", "properties": {}}))
}

/// Constraints that are too large, or whose parts are refused together.
fn schemas() -> Vec<Planted> {
    let properties = (0..150).map(|place| (format!("p{place}"), json!({"type": "string"})));
    let properties: Map<String, Value> = properties.collect();
    let branches: Vec<Value> = (0..40).map(|place| json!({"const": place})).collect();
    let values: Vec<usize> = (0..900).collect();
    let nested = (0..20).fold(
        json!({"type": "integer"}),
        |inner, _| json!({"type": "object", "properties": {"n": inner}}),
    );
    let is_deep = |given: &Value| depth(given) > 8;
    let deep = "/properties/n".repeat(9) + " [levels 8]";
    let has_many = |given: &Value| given.to_string().matches("\"type\":").count() > 20;
    let many = "the part as a whole the first 59 parts of the schema fail together, up to /properties/body/properties/m18; no single list of it does";
    let elsewhere = large(json!({"type": "array", "uniqueItems": true}));
    let has_both =
        |given: &Value| has("uniqueItems")(given) && given["properties"]["m7"].is_object();
    let cycle = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "string"}},
        "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}});
    let refers =
        |all: &Value, from: &str, to: &str| all["$defs"][from]["$ref"] == format!("#/$defs/{to}");
    let is_cycle = move |given: &Value| refers(given, "x", "y") && refers(given, "y", "x");
    let names = json!({"type": "object", "properties": {"größe": {"type": "integer"}, "b": {}}});
    let branch = json!({"type": "object", "if": {"required": ["a"]}, "then": {"$ref": "#/$defs/x"}, "else": {"$ref": "#/$defs/y"},
        "$defs": {"x": {"properties": {"a": {"$ref": "#/$defs/y"}}}, "y": {"minProperties": 2}}});
    let mut defs = large(json!({"$ref": "#/$defs/leaf"}));
    defs["$defs"] = json!({"leaf": {"type": "string", "minLength": 2, "format": "date"}});
    let long = format!(
        "@ \"description\": \"{}... [characters 1024]",
        "d".repeat(47)
    );
    let described = large(json!({"type": "string", "description": "d".repeat(5000)}));
    let numbers = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,";
    let too_many = format!("@ \"enum\": [{numbers}... [values 500]");
    vec![
        sized(
            large(json!({"type": "object", "properties": properties})),
            longer("properties", 100),
            "@/properties [properties 100]",
        ),
        sized(
            large(json!({"enum": values})),
            longer("enum", 500),
            &too_many,
        ),
        sized(
            large(json!({"anyOf": branches})),
            longer("anyOf", 16),
            "@/anyOf [anyOf 16]",
        ),
        sized(described, longer("description", 1024), &long),
        sized(nested, Arc::new(is_deep), &deep),
        sized(large(json!({})), Arc::new(has_many), many),
        planted(
            elsewhere,
            Arc::new(has_both),
            "/properties/m7 with @ \"uniqueItems\": true",
        ),
        planted(
            cycle,
            Arc::new(is_cycle),
            "/$defs/y \"$ref\": \"#/$defs/x\"",
        ),
        planted(
            large(names),
            Arc::new(|given| !given.to_string().is_ascii()),
            "@/properties/größe",
        ),
        planted(defs.clone(), has("$ref"), "@ \"$ref\": \"#/$defs/leaf\""),
        planted(branch, has("then"), "/then"),
        planted(defs, has("format"), "/$defs/leaf \"format\": \"date\""),
    ]
}

fn tool_lists() -> Vec<Planted> {
    let named = |name: &str, is: fn(&str) -> bool, limit: &str| {
        let expected = format!(
            "tool {name}: /function/name \"name\": \"{name}\"{limit} the 11 other tools are accepted together"
        );
        let rule = move |tools: &Value| names(tools).into_iter().any(is);
        planted(tools(12, 5, bare(name)), Arc::new(rule), &expected)
    };
    let mut described = bare("talks");
    described["function"]["description"] = "w".repeat(3000).into();
    let long = format!(
        "tool talks: /function/description \"description\": \"{}... [characters 1024]; the 11 other tools are accepted together",
        "w".repeat(47)
    );
    let deep = large(json!({"type": "string", "maxLength": 10_000}));
    let either = large(json!({"oneOf": [{"type": "string"}, {"type": "null"}]}));
    let mut strict = bare("strict_one");
    strict["function"]["strict"] = true.into();
    let pair = "tool odd: /function/name \"name\": \"odd\" with tool tool_9: /function/name \"name\": \"tool_9\" the 10 other tools are accepted together";
    let is_pair = |all: &Value| {
        ["odd", "tool_9"]
            .iter()
            .all(|name| names(all).contains(name))
    };
    vec![
        named(&"n".repeat(40), |name| name.len() > 32, " [characters 32];"),
        named("my tool", |name| name.contains(' '), ""),
        named("größe", |name| !name.is_ascii(), ""),
        named("web_search", |name| name == "web_search", ""),
        planted(tools(12, 5, bare("odd")), Arc::new(is_pair), pair),
        sized(
            tools(47, 0, bare("a")),
            Arc::new(|all| length(all) >= 32),
            " [tools 31]; any of them",
        ),
        sized(tools(12, 5, described), longer("description", 1024), &long),
        planted(
            tools(47, 31, tool("crawl_site", &deep)),
            at_least("maxLength", 2000),
            "tool crawl_site: @ \"maxLength\": 10000 [maxLength 1999]; the 46 other tools are accepted together",
        ),
        planted(
            tools(47, 46, tool("search", &either)),
            has("oneOf"),
            "tool search: @/oneOf the 46 other tools are accepted together",
        ),
        planted(
            tools(3, 1, strict),
            has("strict"),
            "tool strict_one: /function/strict \"strict\": true the 2 other tools are accepted together",
        ),
    ]
}

fn constraint(body: &Value) -> Option<&Value> {
    let schema = body.pointer("/response_format/json_schema/schema");
    schema.or_else(|| body.get("tools"))
}

fn answer(text: &str) -> ChatReply {
    ChatAnswer::from_text(text).into()
}

/// An answer as bytes.
fn answered() -> String {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop"});
    whole(
        "200 OK",
        "application/json",
        &json!({"choices": [choice]}).to_string(),
    )
}

const REFUSED: ChatReply = ChatReply::Status(
    "400 Bad Request",
    r#"{"error":{"message":"this constraint is not supported"}}"#,
);

fn refusing(rule: Rule) -> ScriptedServer {
    chat_server(move |body| match constraint(body) {
        Some(given) if rule(given) => REFUSED,
        _ => answer("{}"),
    })
}

/// The requests for an answer that a server got.
fn requests(server: &ScriptedServer) -> usize {
    let all = server.requests();
    all.iter()
        .filter(|request| request.line.starts_with("POST "))
        .count()
}

/// Runs the program on a file with this content; more flags may follow.
fn explain(base_url: &str, folder: &Folder, input: &Value, flags: &[&str]) -> Ran {
    let file = folder.file("input.json", input.to_string());
    let url = format!("--base-url={base_url}");
    let mut all = vec![
        "explain",
        &file,
        &url,
        "--disable-stream --disable-tqdm --skip-engines",
    ];
    all.extend_from_slice(flags);
    sobench(&all)
}

/// The lines of the first cause, on one line.
fn cause(page: &str) -> String {
    let lines = page.lines().skip_while(|line| !line.starts_with("cause"));
    let lines: Vec<&str> = lines
        .take_while(|line| !line.starts_with("minimal"))
        .collect();
    unwrapped(&lines.join(" ")).replace(DEEP, "@")
}

/// Explains a planted cause: what is wrong with the explanation, if anything, and its requests.
fn check(row: &Planted) -> (Option<String>, usize) {
    let server = refusing(Arc::clone(&row.rule));
    let folder = Folder::new();
    let saved = folder.path("found.json");
    let flags = ["--slow 0.5 --save", &saved];
    let ran = explain(&server.base_url, &folder, &row.input, &flags);
    let explanation = &folder.json("found.json")["explanations"][0];
    let causes = explanation["causes"].as_array().unwrap();
    let minimal = &causes[0]["minimal"];
    let bytes = minimal.to_string().len();
    let (found, sent) = (cause(&ran.stdout), requests(&server));
    let is_right = (ran.code, causes.len()) == (1, 1)
        && found == row.expected
        && (row.rule)(minimal)
        && bytes <= row.most_bytes
        && explanation["requests"] == sent;
    let shown = || {
        format!(
            "expected {}\nfound    {found}\n{bytes} bytes\n{}{}",
            row.expected, ran.stdout, ran.stderr
        )
    };
    ((!is_right).then(shown), sent)
}

#[test]
fn planted_causes_of_refusals_are_found() {
    let rows: Vec<Planted> = [keywords(), schemas(), tool_lists()]
        .into_iter()
        .flatten()
        .collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let (wrong, sent) = check(row);
                    found.lock().unwrap().push((sent, &row.expected, wrong));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_unstable();
    let (median, worst) = (found[found.len() / 2].0, found[found.len() - 1].0);
    println!(
        "{} causes: median {median} requests, worst {worst}: {}",
        found.len(),
        found[found.len() - 1].1
    );
    let wrong: Vec<String> = found.into_iter().filter_map(|(.., wrong)| wrong).collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        median <= MEDIAN_REQUESTS && worst <= WORST_REQUESTS,
        "{median} {worst}"
    );
}

/// Checks the exit code, and that the page has a text.
#[track_caller]
fn assert_shows(ran: &Ran, code: i32, text: &str) {
    let page = ran.page().replace(DEEP, "@");
    assert!(
        ran.code == code && page.contains(text),
        "{}: {}{}",
        ran.code,
        ran.stdout,
        ran.stderr
    );
}

/// A schema with many keywords that models can be tempted to break.
fn tempting() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["name", "age", "tags", "kind", "fixed"], "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]*$"},
        "age": {"type": "integer", "minimum": 3, "maximum": 120, "multipleOf": 3},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": true},
        "kind": {"enum": ["a", "b"]}, "fixed": {"const": 7}}})
}

/// Changes every object of a schema.
fn change(schema: &mut Value, by: &impl Fn(&mut Map<String, Value>)) {
    match schema {
        Value::Object(members) => {
            by(members);
            members.values_mut().for_each(|inner| change(inner, by));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| change(inner, by)),
        _ => {}
    }
}

/// A server that writes the text that is asked for if the changed schema accepts it, and a valid
/// answer otherwise. It calls the tool that must be called.
fn ignoring_by(by: impl Fn(&mut Map<String, Value>) + Send + Sync + 'static) -> ScriptedServer {
    chat_server(move |body| {
        let tool = body.pointer("/tool_choice/function/name");
        let schema = match (tool, constraint(body)) {
            (Some(_), _) => &body["tools"][0]["function"]["parameters"],
            (None, Some(schema)) if schema.is_object() => schema,
            _ => return answer("Sure!"),
        };
        let mut left = schema.clone();
        change(&mut left, &by);
        let left = Constraint::JsonSchema(left.into());
        let left = Evaluator::new(JudgeSettings::default()).compile(&left);
        let marked = prompt(body).split(MARKS[0]).nth(1);
        let asked = marked.and_then(|rest| rest.split(MARKS[1]).next());
        let text = asked.filter(|text| matches!(judge_text(&left, text), Verdict::Valid));
        let text = match text {
            Some(text) => text.to_owned(),
            None => instances(schema).valid.unwrap_or_default(),
        };
        let mut whole = ChatAnswer::from_text(text.clone());
        if let Some(name) = tool.and_then(Value::as_str) {
            whole.content.clear();
            whole.calls.push(ChatCall {
                id: "call_1".to_owned(),
                name: name.to_owned(),
                arguments: text,
            });
        }
        whole.into()
    })
}

fn ignoring(keyword: &'static str) -> ScriptedServer {
    ignoring_by(move |members| {
        members.remove(keyword);
    })
}

fn broken(file: &Value) -> Vec<&str> {
    let keywords = file["explanations"][0]["keywords"].as_array().unwrap();
    let seen = keywords
        .iter()
        .filter(|kept| kept["verdict"] == "violation_seen");
    seen.map(|kept| kept["pointer"].as_str().unwrap()).collect()
}

#[test]
fn ignored_keywords_are_found() {
    let folder = Folder::new();
    for pointer in [
        "/required",
        "/additionalProperties",
        "/properties/name/minLength",
        "/properties/name/maxLength",
        "/properties/name/pattern",
        "/properties/age/minimum",
        "/properties/age/maximum",
        "/properties/age/multipleOf",
        "/properties/tags/minItems",
        "/properties/tags/maxItems",
        "/properties/tags/uniqueItems",
        "/properties/kind/enum",
        "/properties/fixed/const",
    ] {
        let server = ignoring(pointer.rsplit('/').next().unwrap());
        let ran = explain(&server.base_url, &folder, &tempting(), &["--format json"]);
        let file: Value = serde_json::from_str(&ran.stdout).unwrap();
        contract::check(EXPLAIN_CONTRACT, &file).unwrap();
        assert_eq!(
            (ran.code, broken(&file)),
            (1, vec![pointer]),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
    let ran = explain(&ignoring("none").base_url, &folder, &tempting(), &[]);
    assert_shows(&ran, 0, "no violation seen");
    let prose = chat_server(|_| answer("Sure! Here is the document."));
    let ran = explain(&prose.base_url, &folder, &tempting(), &[]);
    assert_shows(&ran, 1, "ignored the whole constraint: violation seen");
}

#[test]
fn a_keyword_that_is_ignored_beside_another_is_found_with_it() {
    let beside = ignoring_by(|members| {
        if members.contains_key("pattern") {
            members.remove("maxLength");
        }
    });
    let ran = explain(&beside.base_url, &Folder::new(), &tempting(), &[]);
    let line = "ignored /properties/name/maxLength: violation seen";
    assert_shows(&ran, 1, line);
    let with = r#"only together with /properties/name "pattern": "^[a-z]*$""#;
    assert_shows(&ran, 1, with);
    assert_shows(&ran, 1, r#"smallest {"maxLength":5,"pattern":"^[a-z]*$"}"#);
    let untyped = json!({"type": "object", "required": ["n"], "properties": {"n": {"minimum": 4}}});
    let server = ignoring_by(|members| {
        if !members.contains_key("type") {
            members.remove("minimum");
        }
    });
    let ran = explain(&server.base_url, &Folder::new(), &untyped, &[]);
    assert_shows(
        &ran,
        1,
        r#"no violation with add "type": "number" (stricter)"#,
    );
    let look_ahead = json!({"type": "string", "pattern": "^(?=.*[0-9])[a-z0-9]+$"});
    let server = ignoring_by(|members| {
        if members.contains_key("pattern") {
            members.insert("pattern".to_owned(), "^[a-z0-9]+$".into());
        }
    });
    let ran = explain(&server.base_url, &Folder::new(), &look_ahead, &[]);
    assert_shows(&ran, 1, "ignored /pattern: violation seen");
}

#[test]
fn keywords_of_tools_are_tempted() {
    let parameters = json!({"type": "object", "required": ["n"], "additionalProperties": false,
        "properties": {"n": {"type": "integer", "maximum": 5, "minimum": 0}}});
    let tools =
        json!([{"type": "function", "function": {"name": "count", "parameters": parameters}}]);
    let ran = explain(&ignoring("maximum").base_url, &Folder::new(), &tools, &[]);
    assert_shows(
        &ran,
        1,
        "ignored tool count: /properties/n/maximum: violation seen",
    );
    let ran = explain(&ignoring("none").base_url, &Folder::new(), &tools, &[]);
    assert_shows(
        &ran,
        0,
        "kept? no violation seen of 6 keywords, with 4 answers to each",
    );
    let ran = explain(
        &ignoring("none").base_url,
        &Folder::new(),
        &tools,
        &["--max-requests 15"],
    );
    assert_shows(&ran, 0, "stopped after --max-requests");
}

/// A server with a message of its own for each refusal of `not`.
fn quoting(message: impl Fn(&Value, usize) -> String + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            return models();
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match constraint(&body) {
            Some(schema) if has("not")(schema) => {
                let error = json!({"error": {"message": message(schema, request.number)}});
                whole("400 Bad Request", "application/json", &error.to_string())
            }
            _ => answered(),
        }
    })
}

#[test]
fn messages_that_quote_the_request_are_compared_without_it() {
    for server in [
        quoting(|schema, _| format!("Invalid schema: {schema} is not supported")),
        quoting(|schema, _| format!("Failed to compile\n{schema:#}\nnot is unsupported")),
        quoting(|_, number| format!("not is unsupported (request id: {number})")),
        quoting(|_, number| format!("request {number}: not is unsupported")),
    ] {
        assert_not_is_found(&server);
    }
}

#[test]
fn messages_with_hexadecimal_request_ids_are_compared_without_them() {
    let hash = |number: usize| (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    assert_not_is_found(&quoting(move |_, number| {
        format!("not is unsupported, request req_{:016x}", hash(number))
    }));
    assert_not_is_found(&quoting(move |_, number| {
        let id = hash(number);
        format!(
            "request {:08x}-4a1b-{number:04x}: not is unsupported",
            id >> 32
        )
    }));
}

#[track_caller]
fn assert_not_is_found(server: &ScriptedServer) {
    let input = large(json!({"not": {"type": "null"}}));
    let ran = explain(&server.base_url, &Folder::new(), &input, &[]);
    assert_shows(&ran, 1, "cause @/not");
}

/// A server that does not answer `not`, and afterwards nothing if it `dies`.
fn hanging(dies: bool) -> ScriptedServer {
    let is_dead = AtomicBool::new(false);
    ScriptedServer::new(move |request, stream| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let hangs = constraint(&body).is_some_and(|schema| has("not")(schema));
        if hangs || is_dead.load(Ordering::SeqCst) {
            is_dead.fetch_or(dies, Ordering::SeqCst);
            wait_until_closed(stream);
            return Then::Close;
        }
        let text = match request.is_model_list() {
            true => models(),
            false => answered(),
        };
        match stream.write_all(text.as_bytes()) {
            Ok(()) => Then::Keep,
            Err(_) => Then::Close,
        }
    })
}

#[test]
fn a_server_that_hangs_is_waited_for() {
    let folder = Folder::new();
    let small = json!({"type": "object", "properties": {"a": {"not": {"type": "null"}}, "b": {"type": "string"}}});
    let ran = explain(
        &hanging(false).base_url,
        &folder,
        &small,
        &["--request-timeout 1"],
    );
    assert_shows(&ran, 1, "cause /properties/a/not");
    assert_shows(&ran, 1, "hangs on");
}

#[test]
fn a_server_that_stays_dead_is_left() {
    let folder = Folder::new();
    let input = json!({"not": {"type": "null"}, "type": "object"});
    let server = hanging(true);
    let ran = explain(&server.base_url, &folder, &input, &["--request-timeout 1"]);
    assert_shows(&ran, 5, "stopped the server answers no small request");
    assert!(requests(&server) <= 12, "{}", requests(&server));
}

#[test]
fn a_constraint_whose_requests_are_limited_is_undecided() {
    let limited = limiting(|body| constraint(body).is_some());
    let input = json!({"type": "object"});
    let ran = explain(&limited.base_url, &Folder::new(), &input, &[]);
    assert_shows(&ran, 5, "the server limits requests: slow down");
}

fn limiting(is_limited: fn(&Value) -> bool) -> ScriptedServer {
    const LIMITED: &str = r#"{"error":{"message":"slow down"}}"#;
    chat_server(move |body| match is_limited(body) {
        true => ChatReply::Status("429 Too Many Requests", LIMITED),
        false => answer("{}"),
    })
}

#[test]
fn servers_that_decide_by_chance_or_not_at_all_have_no_cause() {
    let folder = Folder::new();
    let input = large(json!({"not": {"type": "null"}}));
    let count = AtomicUsize::new(0);
    let flaky = chat_server(move |body| match constraint(body) {
        Some(_) if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => REFUSED,
        _ => answer("{}"),
    });
    let ran = explain(&flaky.base_url, &folder, &input, &[]);
    assert_shows(&ran, 5, "flaky on");
    explain(&limiting(|_| true).base_url, &folder, &input, &[])
        .assert_fails(3, &["error: the server limits requests"]);
    let all = chat_server(|_| REFUSED);
    explain(&all.base_url, &folder, &input, &[])
        .assert_fails(3, &["without the constraint fails as well", "\nhint: "]);
    explain(
        &refusing_url(),
        &folder,
        &input,
        &["--ready-check-timeout-sec 0"],
    )
    .assert_fails(3, &["\nhint: "]);
}

/// The first time a schema is seen, its keyword is slow; equal ones are then answered from a cache.
#[test]
fn a_slow_keyword_is_found_on_a_server_that_keeps_what_it_compiled() {
    let folder = Folder::new();
    let seen = Mutex::new(BTreeSet::new());
    let server = chat_server(move |body| {
        if let Some(schema) = constraint(body)
            && has("not")(schema)
            && seen.lock().unwrap().insert(schema.to_string())
        {
            std::thread::sleep(Duration::from_millis(1100));
        }
        answer("{}")
    });
    let small = json!({"type": "object", "properties": {"a": {"not": {"type": "null"}}, "b": {"type": "string"}}});
    let ran = explain(&server.base_url, &folder, &small, &["--slow 0.5"]);
    assert_shows(&ran, 1, "cause /properties/a/not");
}

#[test]
fn wrong_input_is_one_error_with_a_hint() {
    let folder = Folder::new();
    let rows = [
        json!({"id": "a", "regex": "a"}),
        json!({"id": "b", "regex": "b"}),
    ];
    let prose = folder.file("prose.json", r#"{"hello": "world"}"#);
    for (file, flags) in [
        (prose, vec![]),
        (folder.file("empty.json", ""), vec![]),
        (folder.lines("rows.jsonl", &rows), vec!["--case=c"]),
        (folder.file("big.json", " ".repeat(21_000_000)), vec![]),
    ] {
        let mut all = vec!["explain", &file, "--disable-tqdm"];
        all.extend(flags);
        let ran = sobench(&all);
        ran.assert_fails(2, &[]);
        let lines: Vec<&str> = ran.stderr.lines().collect();
        let starts = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(
            (starts("error: "), starts("hint: "), lines.len()),
            (1, 1, 2),
            "{file}: {}",
            ran.stderr
        );
    }
}

#[test]
fn explanations_are_saved() {
    let folder = Folder::new();
    let server = refusing(at_least("maxLength", 2000));
    let input = large(json!({"type": "string", "maxLength": 10_000}));
    let (report, sarif) = (folder.path("report"), folder.path("x.sarif"));
    let flags = ["--format json", "--save", &report, "--save", &sarif];
    let ran = explain(&server.base_url, &folder, &input, &flags);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let first = &printed["explanations"][0];
    assert_eq!(
        (&printed["format"], &printed["format_version"]),
        (&json!("sobench-explain"), &json!(1))
    );
    assert_eq!(
        (&first["verdict"], &first["requests"]),
        (&json!("refused"), &json!(requests(&server)))
    );
    let found = &first["causes"][0];
    assert_eq!(
        found["places"],
        json!([{"tool": null, "pointer": DEEP, "keyword": "\"maxLength\": 10000"}])
    );
    assert_eq!(
        found["limit"],
        json!({"of": "maxLength", "accepted_at": 1999, "fails_at": 2000})
    );
    assert_eq!(found["cures"][0]["change"], "\"maxLength\": 1999");
    assert_eq!(folder.json("report/minimal.json"), found["minimal"]);
    let curl = folder.read("report/curl.sh");
    assert!(
        curl.contains(&server.base_url) && curl.contains("@request.json"),
        "{curl}"
    );
    let issue = folder.read("report/issue.md");
    assert!(
        issue.contains("maxLength") && issue.contains("this constraint is not supported"),
        "{issue}"
    );
    // Neither these files nor others of the user are replaced.
    for (path, what) in [
        (
            &*report,
            "would overwrite a file that sobench did not write",
        ),
        (&*folder.path("page.html"), "no format for this name"),
    ] {
        let again = explain(&server.base_url, &folder, &input, &["--save", path]);
        assert_eq!(again.code, 2, "{}", again.stderr);
        assert!(again.stderr.contains(what), "{}", again.stderr);
    }
    let log = folder.json("x.sarif");
    let results = log["runs"][0]["results"].as_array().unwrap();
    let pointer = &results[0]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"];
    assert_eq!(
        (&log["version"], results.len(), pointer),
        (&json!("2.1.0"), 1, &json!(DEEP))
    );
    // The saved request is refused when it is sent.
    let request = folder.json("report/request.json");
    assert_eq!(constraint(&request), Some(&found["minimal"]));
    let ran = explain(&server.base_url, &folder, &request, &[]);
    assert_shows(&ran, 1, "maxLength: accepted at 1999, refused at 2000");
}

#[test]
fn request_bodies_go_to_their_endpoint_and_are_tempted() {
    let folder = Folder::new();
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]});
    let format = json!({"type": "json_schema", "name": "o", "schema": schema});
    for body in [
        json!({"model": "m", "prompt": "hi", "max_tokens": 5, "structured_outputs": {"json": schema}}),
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "response_format": {"type": "json_schema", "json_schema": format}}),
        json!({"model": "m", "input": "hi", "text": {"format": format}}),
    ] {
        let file = folder.file("body.json", body.to_string());
        let flags =
            "--guided-decoding-backend guidance --skip-engines --disable-tqdm --format json";
        let ran = sobench(&["explain", &file, flags]);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        let page: Value = serde_json::from_str(&ran.stdout).unwrap();
        let keywords = page["explanations"][0]["keywords"].as_array().unwrap();
        let is_kept = |kept: &Value| kept["verdict"] == "no_violation_seen";
        assert!(
            keywords.len() == 4 && keywords.iter().all(is_kept),
            "{page}"
        );
    }
}

#[test]
fn a_comparison_ends_with_the_request_to_explain() {
    let folder = Folder::new();
    let schema = json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true});
    let row = json!({"prompt": "List", "json": schema});
    let rows = folder.lines("rows.jsonl", &[row]);
    let bench = |more: &str| {
        let flags = format!("bench --dataset custom --num-prompts 1 {more} --dataset-path");
        let mut words: Vec<&str> = flags.split(' ').collect();
        words.push(&rows);
        sobench(&words)
    };
    let [first, second] = ["a.jsonl", "b.jsonl"].map(|name| {
        let path = folder.path(name);
        bench(&format!(
            "--guided-decoding-backend guidance --run-log {path}"
        ));
        path
    });
    let compared = sobench(&["compare", &first, &second]);
    let line = format!("why: sobench explain {second} --case custom-0\n");
    assert!(compared.stdout.ends_with(&line), "{}", compared.stdout);
    let matrix = bench("--guided-decoding-backend guidance,outlines --repeat 2");
    let lines: Vec<&str> = matrix.stderr.lines().collect();
    let is_line = |line: &&str| {
        line.starts_with("why: sobench explain ") && line.ends_with(" --case custom-0")
    };
    assert_eq!(
        lines.into_iter().filter(is_line).count(),
        1,
        "{}",
        matrix.stderr
    );
}
