//! Parses structural tags: xgrammar's format tree, and the legacy form with `structures`.
//!
//! Errors name the path of the format. A format without `type` has the type of its members, as in
//! xgrammar. Members that are unknown are ignored.

use serde_json::{Map, Value};

use sobench_core::schema_part::pointer_token;
use sobench_core::verdict::NotScored;

/// Maximum nesting of formats. xgrammar has no published limit.
const MAX_NESTING: usize = 64;

/// Maximum number of formats in a tag.
const MAX_FORMATS: usize = 20_000;

/// A format and its path in the tag, a JSON pointer.
#[derive(Debug)]
pub(super) struct Format {
    pub path: String,
    pub kind: FormatKind,
}

/// What a format matches.
#[derive(Debug)]
pub(super) enum FormatKind {
    ConstString(String),
    JsonSchema {
        schema: Value,
        style: Style,
    },
    /// In EBNF.
    Grammar(String),
    Regex(String),
    AnyText {
        excludes: Vec<String>,
        max_tokens: Option<u64>,
        max_chars: Option<u64>,
    },
    Sequence(Vec<Format>),
    Or(Vec<Format>),
    Optional(Box<Format>),
    Plus(Box<Format>),
    Star(Box<Format>),
    Repeat {
        least: u64,
        /// `None` for any number.
        most: Option<u64>,
        content: Box<Format>,
    },
    Tag(Box<Tag>),
    TriggeredTags {
        triggers: Vec<String>,
        tags: Vec<Tag>,
        excludes: Vec<String>,
        at_least_one: bool,
        stop_after_first: bool,
    },
    TagsWithSeparator {
        tags: Vec<Tag>,
        separator: String,
        at_least_one: bool,
        stop_after_first: bool,
    },
    Dispatch {
        rules: Vec<(String, Format)>,
        repeats: bool,
        excludes: Vec<String>,
    },
}

/// `begin`, a content, and one of the `ends`.
#[derive(Debug)]
pub(super) struct Tag {
    pub path: String,
    pub begin: String,
    pub content: Format,
    pub ends: Vec<String>,
}

/// The notation of the value of a `json_schema` format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Json,
    QwenXml,
    MinimaxXml,
    DeepseekXml,
    GlmXml,
    CohereXml,
    KimiK3Xml,
}

impl Style {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "json" => Self::Json,
            "qwen_xml" => Self::QwenXml,
            "minimax_xml" => Self::MinimaxXml,
            "deepseek_xml" => Self::DeepseekXml,
            "glm_xml" => Self::GlmXml,
            "cohere_xml" => Self::CohereXml,
            "kimi_k3_xml" => Self::KimiK3Xml,
            _ => return None,
        })
    }
}

/// Parses a tag. The error is the reason why answers cannot be scored.
pub(super) fn parse(tag: &Value) -> Result<Format, NotScored> {
    let mut parser = Parser {
        formats: 0,
        depth: 0,
    };
    let members = tag
        .as_object()
        .ok_or_else(|| unusable("", "not an object"))?;
    if let Some(kind) = members.get("type")
        && kind != "structural_tag"
    {
        return Err(unusable("/type", "not \"structural_tag\""));
    }
    match (members.get("format"), members.get("structures")) {
        (Some(format), _) => parser.format(format, "/format".to_owned()),
        (None, Some(structures)) => legacy(&mut parser, members, structures),
        (None, None) => Err(unusable("", "neither `format` nor `structures`")),
    }
}

/// The form of older servers: `structures`, each with `begin`, `schema` and `end`, and `triggers`.
fn legacy(
    parser: &mut Parser,
    members: &Map<String, Value>,
    structures: &Value,
) -> Result<Format, NotScored> {
    let structures = structures
        .as_array()
        .filter(|structures| !structures.is_empty())
        .ok_or_else(|| unusable("/structures", "not a list with structures"))?;
    let mut tags = Vec::new();
    for (index, structure) in structures.iter().enumerate() {
        parser.count(1)?;
        let path = format!("/structures/{index}");
        let source = Source::new(structure, &path)?;
        // A schema may be given as a text.
        let schema = match source.members.get("schema") {
            Some(Value::String(text)) => serde_json::from_str(text)
                .map_err(|_| unusable(&format!("{path}/schema"), "not JSON"))?,
            Some(schema) => schema.clone(),
            None => return Err(unusable(&path, "no `schema`")),
        };
        tags.push(Tag {
            begin: source.text("begin")?,
            ends: vec![source.text("end")?],
            content: Format {
                path: format!("{path}/schema"),
                kind: FormatKind::JsonSchema {
                    schema,
                    style: Style::Json,
                },
            },
            path,
        });
    }
    let source = Source {
        members,
        path: String::new(),
    };
    let triggers = source.required_texts("triggers")?;
    Ok(Format {
        path: "/structures".to_owned(),
        kind: FormatKind::TriggeredTags {
            triggers,
            tags,
            excludes: Vec::new(),
            at_least_one: false,
            stop_after_first: false,
        },
    })
}

struct Parser {
    formats: usize,
    depth: usize,
}

impl Parser {
    fn count(&mut self, formats: usize) -> Result<(), NotScored> {
        self.formats += formats;
        if self.formats > MAX_FORMATS {
            return Err(limit(&format!("over {MAX_FORMATS} formats")));
        }
        Ok(())
    }

    fn format(&mut self, format: &Value, path: String) -> Result<Format, NotScored> {
        self.count(1)?;
        if self.depth == MAX_NESTING {
            return Err(limit(&format!("formats nested over {MAX_NESTING} levels")));
        }
        self.depth += 1;
        let source = Source::new(format, &path)?;
        let kind = self.kind(&source);
        self.depth -= 1;
        Ok(Format { kind: kind?, path })
    }

    fn kind(&mut self, source: &Source<'_>) -> Result<FormatKind, NotScored> {
        let kind = match source.members.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(_) => return Err(unusable(&source.path, "`type` is not a string")),
            None => source
                .implied_type()
                .ok_or_else(|| unusable(&source.path, "no `type`"))?,
        };
        Ok(match kind {
            "const_string" => FormatKind::ConstString(source.text("value")?),
            "json_schema" => source.json_schema(None)?,
            "qwen_xml_parameter" => source.json_schema(Some(Style::QwenXml))?,
            "grammar" => FormatKind::Grammar(source.text("grammar")?),
            "regex" => FormatKind::Regex(source.text("pattern")?),
            "any_text" => FormatKind::AnyText {
                excludes: source.texts("excludes")?,
                max_tokens: source.budget("max_tokens")?,
                max_chars: source.budget("max_chars")?,
            },
            "sequence" => FormatKind::Sequence(self.elements(source)?),
            "or" => FormatKind::Or(self.elements(source)?),
            "optional" => FormatKind::Optional(self.content(source)?),
            "plus" => FormatKind::Plus(self.content(source)?),
            "star" => FormatKind::Star(self.content(source)?),
            "repeat" => self.repeat(source)?,
            "tag" => FormatKind::Tag(Box::new(self.tag(source)?)),
            "triggered_tags" => FormatKind::TriggeredTags {
                triggers: source.required_texts("triggers")?,
                tags: self.tags(source)?,
                excludes: source.texts("excludes")?,
                at_least_one: source.flag("at_least_one", false)?,
                stop_after_first: source.flag("stop_after_first", false)?,
            },
            "tags_with_separator" => FormatKind::TagsWithSeparator {
                tags: self.tags(source)?,
                separator: source.text("separator")?,
                at_least_one: source.flag("at_least_one", false)?,
                stop_after_first: source.flag("stop_after_first", false)?,
            },
            "dispatch" => self.dispatch(source)?,
            "token"
            | "exclude_token"
            | "any_tokens"
            | "token_triggered_tags"
            | "token_dispatch" => return Err(token_level(&source.path, kind)),
            kind => {
                return Err(unusable(
                    &source.path,
                    &format!("unknown type {:?}", shortened(kind)),
                ));
            }
        })
    }

    fn elements(&mut self, source: &Source<'_>) -> Result<Vec<Format>, NotScored> {
        let elements = source.list("elements")?;
        let path = source.member_path("elements");
        let elements = elements.iter().enumerate();
        elements
            .map(|(index, element)| self.format(element, format!("{path}/{index}")))
            .collect()
    }

    fn content(&mut self, source: &Source<'_>) -> Result<Box<Format>, NotScored> {
        let content = source
            .members
            .get("content")
            .ok_or_else(|| unusable(&source.path, "no `content`"))?;
        self.format(content, source.member_path("content"))
            .map(Box::new)
    }

    fn repeat(&mut self, source: &Source<'_>) -> Result<FormatKind, NotScored> {
        let bound = |name: &str| {
            let bound = source.members.get(name).and_then(Value::as_i64);
            bound.ok_or_else(|| unusable(&source.member_path(name), "not an integer"))
        };
        let (least, most) = (bound("min")?, bound("max")?);
        let least = u64::try_from(least)
            .map_err(|_| unusable(&source.member_path("min"), "is negative"))?;
        let most = match most {
            -1 => None,
            most => Some(u64::try_from(most).map_err(|_| {
                unusable(&source.member_path("max"), "is neither -1 nor at least 0")
            })?),
        };
        if most.is_some_and(|most| most < least) {
            return Err(unusable(&source.path, "`min` is over `max`"));
        }
        Ok(FormatKind::Repeat {
            least,
            most,
            content: self.content(source)?,
        })
    }

    fn tags(&mut self, source: &Source<'_>) -> Result<Vec<Tag>, NotScored> {
        let tags = source.list("tags")?;
        let path = source.member_path("tags");
        let mut parsed = Vec::new();
        for (index, tag) in tags.iter().enumerate() {
            self.count(1)?;
            let source = Source::new(tag, &format!("{path}/{index}"))?;
            if source.members.get("type").is_some_and(|kind| kind != "tag") {
                return Err(unusable(&source.path, "`type` is not \"tag\""));
            }
            parsed.push(self.tag(&source)?);
        }
        Ok(parsed)
    }

    fn tag(&mut self, source: &Source<'_>) -> Result<Tag, NotScored> {
        for edge in ["begin", "end"] {
            if source.members.get(edge).is_some_and(Value::is_object) {
                return Err(token_level(&source.member_path(edge), "token"));
            }
        }
        let ends = match source.members.get("end") {
            Some(Value::Array(_)) => source.required_texts("end")?,
            _ => vec![source.text("end")?],
        };
        Ok(Tag {
            path: source.path.clone(),
            begin: source.text("begin")?,
            content: *self.content(source)?,
            ends,
        })
    }

    fn dispatch(&mut self, source: &Source<'_>) -> Result<FormatKind, NotScored> {
        let path = source.member_path("rules");
        let mut rules = Vec::new();
        for (index, rule) in source.list("rules")?.iter().enumerate() {
            let path = format!("{path}/{index}");
            let Some([Value::String(trigger), content]) = rule.as_array().map(Vec::as_slice) else {
                return Err(unusable(&path, "not a pair of a text and a format"));
            };
            let content = self.format(content, format!("{path}/1"))?;
            rules.push((trigger.clone(), content));
        }
        Ok(FormatKind::Dispatch {
            rules,
            repeats: source.flag("loop", true)?,
            excludes: source.texts("excludes")?,
        })
    }
}

/// The members of a format.
struct Source<'a> {
    members: &'a Map<String, Value>,
    path: String,
}

impl<'a> Source<'a> {
    fn new(value: &'a Value, path: &str) -> Result<Self, NotScored> {
        let members = value
            .as_object()
            .ok_or_else(|| unusable(path, "not an object"))?;
        Ok(Self {
            members,
            path: path.to_owned(),
        })
    }

    fn member_path(&self, name: &str) -> String {
        format!("{}/{}", self.path, pointer_token(name))
    }

    /// The type that xgrammar gives to a format without `type`: the first that fits.
    fn implied_type(&self) -> Option<&'static str> {
        let has = |names: &[&str]| names.iter().all(|name| self.members.contains_key(*name));
        [
            ("tag", &["begin", "content", "end"][..]),
            ("const_string", &["value"]),
            ("json_schema", &["json_schema"]),
            ("any_text", &["excludes"]),
            ("sequence", &["elements"]),
            ("triggered_tags", &["triggers", "tags"]),
            ("tags_with_separator", &["tags", "separator"]),
            ("optional", &["content"]),
            ("dispatch", &["rules"]),
        ]
        .into_iter()
        .find_map(|(kind, names)| has(names).then_some(kind))
    }

    fn json_schema(&self, style: Option<Style>) -> Result<FormatKind, NotScored> {
        let schema = self
            .members
            .get("json_schema")
            .filter(|schema| schema.is_object() || schema.is_boolean())
            .ok_or_else(|| unusable(&self.path, "`json_schema` is no object or boolean"))?
            .clone();
        let named = match self.members.get("style") {
            Some(Value::String(name)) => Style::parse(name)
                .ok_or_else(|| unusable(&self.member_path("style"), "unknown style"))?,
            _ => Style::Json,
        };
        Ok(FormatKind::JsonSchema {
            schema,
            style: style.unwrap_or(named),
        })
    }

    fn text(&self, name: &str) -> Result<String, NotScored> {
        match self.members.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            _ => Err(unusable(&self.path, &format!("`{name}` is not a string"))),
        }
    }

    /// An optional list of texts that are not empty.
    fn texts(&self, name: &str) -> Result<Vec<String>, NotScored> {
        if !self.members.contains_key(name) {
            return Ok(Vec::new());
        }
        let texts = self.required_texts(name)?;
        if texts.iter().any(String::is_empty) {
            return Err(unusable(&self.member_path(name), "has an empty text"));
        }
        Ok(texts)
    }

    fn required_texts(&self, name: &str) -> Result<Vec<String>, NotScored> {
        let texts = match self.members.get(name) {
            // Only optional lists may be empty.
            Some(Value::Array(texts)) if !texts.is_empty() || name == "excludes" => texts,
            _ => {
                return Err(unusable(
                    &self.path,
                    &format!("`{name}` is not a list of texts"),
                ));
            }
        };
        let texts = texts
            .iter()
            .map(|text| text.as_str().map(str::to_owned))
            .collect::<Option<_>>();
        texts.ok_or_else(|| unusable(&self.member_path(name), "not a list of texts"))
    }

    fn list(&self, name: &str) -> Result<&'a [Value], NotScored> {
        match self.members.get(name) {
            Some(Value::Array(items)) if !items.is_empty() => Ok(items),
            _ => Err(unusable(
                &self.path,
                &format!("`{name}` is not a list with members"),
            )),
        }
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, NotScored> {
        match self.members.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(unusable(&self.member_path(name), "not a boolean")),
        }
    }

    fn budget(&self, name: &str) -> Result<Option<u64>, NotScored> {
        match self.members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(budget) => match budget.as_u64() {
                Some(budget) => Ok(Some(budget)),
                None => Err(unusable(&self.member_path(name), "no integer of 0 or more")),
            },
        }
    }
}

/// A tag that cannot be used, by the path in it.
pub(super) fn unusable(path: &str, message: &str) -> NotScored {
    let location = if path.is_empty() { "/" } else { path };
    NotScored::Unsupported {
        what: format!("structural tag at {location}: {message}"),
    }
}

fn limit(what: &str) -> NotScored {
    NotScored::Limit {
        what: format!("structural tag: {what}"),
    }
}

fn token_level(path: &str, kind: &str) -> NotScored {
    unusable(
        path,
        &format!("`{kind}` matches tokens, and the text of an answer has none"),
    )
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_the_path() {
        let text = json!({"type": "const_string", "value": "a"});
        for (tag, message) in [
            (json!(1), "structural tag at /: not an object"),
            (
                json!({"type": "json_schema"}),
                "structural tag at /type: not \"structural_tag\"",
            ),
            (
                json!({}),
                "structural tag at /: neither `format` nor `structures`",
            ),
            (
                json!({"format": {"type": "sequence", "elements": [text, {"type": "say"}]}}),
                "structural tag at /format/elements/1: unknown type \"say\"",
            ),
            (
                json!({"format": {"type": "repeat", "min": 2, "max": 1, "content": text}}),
                "structural tag at /format: `min` is over `max`",
            ),
            (
                json!({"format": {"type": "star", "content": {"type": "any_tokens"}}}),
                "structural tag at /format/content: `any_tokens` matches tokens, and the text of an answer has none",
            ),
            (
                json!({"format": {"type": "tag", "begin": {"type": "token", "token": 1}, "content": text, "end": ""}}),
                "structural tag at /format/begin: `token` matches tokens, and the text of an answer has none",
            ),
            (
                json!({"format": {"type": "dispatch", "rules": [["a"]]}}),
                "structural tag at /format/rules/0: not a pair of a text and a format",
            ),
            (
                json!({"structures": [{"begin": "<a>", "end": "</a>"}], "triggers": ["<a"]}),
                "structural tag at /structures/0: no `schema`",
            ),
            (
                json!({"format": {"type": "json_schema", "json_schema": {}, "style": "toml"}}),
                "structural tag at /format/style: unknown style",
            ),
        ] {
            assert_eq!(parse(&tag).unwrap_err().to_string(), message, "{tag}");
        }
    }

    #[test]
    fn nesting_and_size_are_limited() {
        let mut deep = json!({"type": "any_text"});
        for _ in 0..MAX_NESTING {
            deep = json!({"type": "star", "content": deep});
        }
        let many = json!({"type": "or", "elements": vec![json!({"value": ""}); MAX_FORMATS]});
        for format in [deep, many] {
            let error = parse(&json!({ "format": format })).unwrap_err();
            assert!(matches!(error, NotScored::Limit { .. }), "{error}");
        }
    }

    #[test]
    fn types_are_implied_by_members() {
        let tag = json!({"format": {"elements": [{"value": "a"}, {"begin": "", "content": {"json_schema": true}, "end": ["x", ""]}]}});
        let FormatKind::Sequence(elements) = parse(&tag).unwrap().kind else {
            panic!("no sequence");
        };
        assert!(matches!(elements[0].kind, FormatKind::ConstString(_)));
        assert!(matches!(elements[1].kind, FormatKind::Tag(_)));
    }
}
