//! What invalid answers show, and the headline of a run without a valid one.

use std::fmt;
use std::sync::Arc;

use sobench_backend::ConstraintDialect;
use sobench_core::answer::Channel;
use sobench_core::constraint::Constraint;
use sobench_core::departure::{Departure, Departures};
use sobench_core::printable::{NAME_CHARS, printable};
use sobench_core::verdict::{ExtraText, Reason, ToolCallFault};
use sobench_judge::{EXPECTED_VALUE, unsatisfiable};

/// The last byte at which a text can fail that does not start as JSON; white space may be before it.
const LAST_BYTE_OF_PROSE: usize = 4;

/// What an invalid answer shows about its cause.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BreachCause {
    /// Free text without the structure of the constraint.
    Unconstrained,
    /// The start has the structure, and a later part breaks it.
    BreaksOff,
    /// JSON that violates this keyword of the schema.
    Keyword {
        keyword: String,
        in_arguments: bool,
    },
    /// No value satisfies the schema.
    Unsatisfiable {
        why: String,
    },
    /// JSON with other text around it, valid without that text or not.
    TextAround {
        kind: ExtraText,
        is_valid: bool,
    },
    Channel(Channel),
    /// Markup of tool calls in a text.
    Markup(Channel),
    FinishReason(String),
    /// Another fault of tool calls, or arguments that are no JSON object.
    Calls(&'static str),
    /// Any other fault of the text.
    Text(&'static str),
    /// How the answer was sent, or ended, explains the fault.
    Departure(Departure),
}

impl BreachCause {
    /// The departure that explains why an answer is invalid by `reason`, if one does.
    pub fn of_departures(departures: &Departures, reason: &Reason) -> Option<Self> {
        let explains = |departure: &Departure| match departure {
            Departure::SharedIndex => matches!(
                reason,
                Reason::ToolCall(
                    ToolCallFault::InvalidArguments { .. } | ToolCallFault::UnknownTool { .. }
                )
            ),
            Departure::RepeatedCalls => *reason == Reason::Truncated,
            departure => departure.is_contradiction() || *departure == Departure::ContentFilter,
        };
        let mut all = departures.iter().map(|(departure, _)| departure);
        all.find(explains).map(Self::Departure)
    }

    /// The cause of an answer that is invalid by `reason`.
    pub fn new(reason: &Reason, constraint: Option<&Constraint>) -> Self {
        let of_arguments = || match reason {
            Reason::ToolCall(ToolCallFault::InvalidArguments { name, .. }) => {
                constraint?.tools()?.tool(name)?.parameters()
            }
            _ => None,
        };
        let schema = constraint.and_then(Constraint::schema);
        let schema = schema.map(Arc::as_ref).or_else(of_arguments);
        if let Some(why) = schema.and_then(unsatisfiable) {
            return Self::Unsatisfiable { why };
        }
        match reason {
            Reason::NotJson { message, byte }
                if *byte <= LAST_BYTE_OF_PROSE && message == EXPECTED_VALUE =>
            {
                Self::Unconstrained
            }
            Reason::Choice
            | Reason::Regex { prefix: false }
            | Reason::Grammar { byte: 0 }
            | Reason::StructuralTag { byte: 0, .. } => Self::Unconstrained,
            Reason::NotJson { .. }
            | Reason::LoneSurrogate { .. }
            | Reason::Regex { prefix: true }
            | Reason::Grammar { .. }
            | Reason::StructuralTag { .. } => Self::BreaksOff,
            Reason::ExtraText {
                kind,
                valid_if_stripped,
                ..
            } => Self::TextAround {
                kind: *kind,
                is_valid: *valid_if_stripped,
            },
            Reason::Schema { keyword, .. } => Self::Keyword {
                keyword: keyword.clone(),
                in_arguments: false,
            },
            Reason::DuplicateKey { .. } => Self::Text("the answers have duplicate members"),
            Reason::Empty => {
                Self::Text("the answers are empty; look for their text in the server's log")
            }
            Reason::TooLong { .. } | Reason::TooDeep { .. } => {
                Self::Text("the answers are over the limits of sobench")
            }
            Reason::RunawayWhitespace { .. } => {
                Self::Text("the answers are endless white space; the constraint allows it")
            }
            Reason::WrongChannel { channel, .. } => Self::Channel(*channel),
            Reason::OtherRequest { .. } => {
                Self::Text("the answers belong to other requests: the server mixes them up")
            }
            Reason::Truncated => {
                Self::Text("the answers are cut at the token limit; set a higher --output-len")
            }
            Reason::ToolCall(fault) => Self::of_calls(fault),
        }
    }

    fn of_calls(fault: &ToolCallFault) -> Self {
        match fault {
            ToolCallFault::LeakedMarkup { channel, .. } => Self::Markup(*channel),
            ToolCallFault::WrongFinishReason { finish_reason, .. } => {
                Self::FinishReason(finish_reason.clone())
            }
            ToolCallFault::InvalidArguments { why, .. } => match &**why {
                Reason::Schema { keyword, .. } => Self::Keyword {
                    keyword: keyword.clone(),
                    in_arguments: true,
                },
                _ => Self::Calls("the arguments of the calls do not have the form of their tool"),
            },
            ToolCallFault::ArgumentsNotText { .. } => {
                Self::Text("the arguments of the calls are not strings; clients cannot parse them")
            }
            ToolCallFault::CallUnderNone { .. } => {
                Self::Calls("the server makes calls although tool_choice is none")
            }
            ToolCallFault::UnknownTool { .. } => {
                Self::Calls("the calls name tools that the request does not offer")
            }
            ToolCallFault::WrongTool { .. } => {
                Self::Calls("the calls name tools that tool_choice excludes")
            }
            ToolCallFault::MissingCallId { .. } => Self::Calls("the calls have no id"),
            ToolCallFault::DuplicateCallId { .. } => Self::Calls("calls have the id of another"),
            ToolCallFault::TooManyCalls { .. } => {
                Self::Calls("the server makes several calls although parallel_tool_calls is false")
            }
            ToolCallFault::MissingCall => {
                Self::Calls("the answers have no call although tool_choice requires one")
            }
        }
    }

    /// Whether the server may not enforce the constraint, or not all of it. Answers with another
    /// cause may follow it in the wrong place.
    pub fn is_of_enforcement(&self) -> bool {
        matches!(
            self,
            Self::Unconstrained
                | Self::BreaksOff
                | Self::Keyword { .. }
                | Self::TextAround { .. }
                | Self::Calls(_)
        )
    }
}

impl fmt::Display for BreachCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconstrained => f.write_str("the answers look unconstrained"),
            Self::BreaksOff => f.write_str(
                "the answers start as the constraint requires and break it later; the server may \
                 enforce only a part of it",
            ),
            Self::Keyword {
                keyword,
                in_arguments,
            } => {
                let (place, keyword) = (
                    if *in_arguments {
                        "arguments"
                    } else {
                        "answers"
                    },
                    shown(keyword),
                );
                write!(
                    f,
                    "the {place} violate the keyword `{keyword}` of the schema; the server may not enforce it"
                )
            }
            Self::Unsatisfiable { why } => {
                write!(f, "{}; the schema is at fault, not the server", shown(why))
            }
            Self::TextAround { kind, is_valid } => {
                let valid = if *is_valid {
                    ", and are valid without it"
                } else {
                    ""
                };
                write!(
                    f,
                    "the answers are JSON with other text ({}){valid}",
                    kind.phrase()
                )
            }
            Self::Channel(channel) => write!(
                f,
                "the answers are in {} instead of content; check the server's parser for it",
                channel.name()
            ),
            Self::Markup(channel) => write!(
                f,
                "the calls are left as text in the {}; check the server's parser for tool calls",
                channel.name()
            ),
            Self::FinishReason(reason) => write!(
                f,
                "the calls are right, and the finish reason {:?} does not fit them; clients that read it end early",
                shown(reason)
            ),
            Self::Calls(sentence) | Self::Text(sentence) => f.write_str(sentence),
            Self::Departure(departure) if departure.is_contradiction() => write!(
                f,
                "the streams contradict themselves ({departure}); they may have broken the answers, and not the engine"
            ),
            Self::Departure(departure) => {
                let read = match departure.clients_read() {
                    "" => String::new(),
                    read => format!("; clients read {read}"),
                };
                write!(f, "{departure}{read}")
            }
        }
    }
}

fn shown(text: &str) -> String {
    printable(text, NAME_CHARS)
}

/// The headline of a run without a valid answer: what most of its answers have in common. `causes`
/// are those of its invalid answers, with counts, the most frequent first. `field` carries
/// constraints on texts; tools have none.
pub fn headline(
    causes: &[(BreachCause, usize)],
    field: Option<ConstraintDialect>,
    has_preflight: bool,
) -> Option<String> {
    let all: usize = causes.iter().map(|(_, count)| count).sum();
    let (first, count) = causes.first()?;
    let none = format!("none of {all} constrained answers follows its constraint");
    let is_keyword = |cause: &BreachCause| matches!(cause, BreachCause::Keyword { .. });
    let keywords = || {
        let names = causes.iter().filter_map(|(cause, count)| match cause {
            BreachCause::Keyword { keyword, .. } => Some(format!("`{}` {count}", shown(keyword))),
            _ => None,
        });
        names.collect::<Vec<_>>().join(", ")
    };
    if 2 * count <= all {
        return Some(match causes.iter().all(|(cause, _)| is_keyword(cause)) {
            true => format!(
                "{none}: they violate several keywords ({}); the server may enforce JSON without the schema",
                keywords()
            ),
            false => format!("{none}, for several reasons, listed below"),
        });
    }
    let most = if *count < all {
        format!(" (most often, in {count})")
    } else {
        String::new()
    };
    let is_unconstrained = *first == BreachCause::Unconstrained;
    let field = field
        .filter(|_| is_unconstrained)
        .map_or_else(String::new, |field| {
            format!("; the server may ignore the field of {field}")
        });
    let untested = if is_unconstrained && !has_preflight {
        "; preflight was skipped, `sobench preflight` tests it"
    } else {
        ""
    };
    Some(format!("{none}: {first}{most}{field}{untested}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use std::collections::BTreeSet;

    use super::*;
    use sobench_core::tools::ToolSet;
    use sobench_judge::{Evaluator, JudgeSettings, judge_text};

    const FIELD: Option<ConstraintDialect> = Some(ConstraintDialect::ResponseFormat);

    fn schema_reason(keyword: &str) -> Reason {
        Reason::Schema {
            keyword: keyword.to_owned(),
            instance_path: String::new(),
            schema_path: String::new(),
            message: String::new(),
        }
    }

    fn not_json(message: &str, byte: usize) -> Reason {
        Reason::NotJson {
            message: message.to_owned(),
            byte,
        }
    }

    /// A reason of each kind, and what follows the first part of its headline.
    fn table() -> Vec<(Reason, &'static str)> {
        use ToolCallFault as Fault;
        let name = || "f".to_owned();
        let arguments = |why: Reason| Fault::InvalidArguments {
            call: 0,
            name: name(),
            why: Box::new(why),
        };
        let extra = |kind, valid_if_stripped| Reason::ExtraText {
            byte: 0,
            kind,
            valid_if_stripped,
        };
        let tag = |byte| Reason::StructuralTag {
            path: String::new(),
            byte,
            message: String::new(),
        };
        let unconstrained = "the answers look unconstrained; the server may ignore the field of response-format; preflight was skipped, \
             `sobench preflight` tests it";
        let breaks_off = "the answers start as the constraint requires and break it later; the server may enforce only a part of it";
        let limits = "the answers are over the limits of sobench";
        let texts = vec![
            (not_json(EXPECTED_VALUE, 0), unconstrained),
            (not_json(EXPECTED_VALUE, 40), breaks_off),
            (not_json("expected a colon", 3), breaks_off),
            (
                extra(ExtraText::Fence, true),
                "the answers are JSON with other text (code fence around the JSON), and are valid without it",
            ),
            (
                extra(ExtraText::ProseBefore, false),
                "the answers are JSON with other text (text before the JSON)",
            ),
            (
                schema_reason("pattern"),
                "the answers violate the keyword `pattern` of the schema; the server may not enforce it",
            ),
            (
                Reason::DuplicateKey {
                    key: name(),
                    instance_path: String::new(),
                },
                "the answers have duplicate members",
            ),
            (Reason::LoneSurrogate { byte: 9 }, breaks_off),
            (Reason::Regex { prefix: false }, unconstrained),
            (Reason::Regex { prefix: true }, breaks_off),
            (Reason::Choice, unconstrained),
            (Reason::Grammar { byte: 0 }, unconstrained),
            (Reason::Grammar { byte: 7 }, breaks_off),
            (tag(0), unconstrained),
            (tag(7), breaks_off),
            (
                Reason::Empty,
                "the answers are empty; look for their text in the server's log",
            ),
            (Reason::TooLong { bytes: 9 }, limits),
            (Reason::TooDeep { nesting: 9 }, limits),
            (
                Reason::RunawayWhitespace { bytes: 9 },
                "the answers are endless white space; the constraint allows it",
            ),
            (
                Reason::WrongChannel {
                    channel: Channel::Reasoning,
                },
                "the answers are in reasoning instead of content; check the server's parser for it",
            ),
            (
                Reason::OtherRequest { member: name() },
                "the answers belong to other requests: the server mixes them up",
            ),
            (
                Reason::Truncated,
                "the answers are cut at the token limit; set a higher --output-len",
            ),
        ];
        let calls = vec![
            (
                Fault::LeakedMarkup {
                    channel: Channel::Content,
                    markup: name(),
                    byte: 0,
                },
                "the calls are left as text in the content; check the server's parser for tool calls",
            ),
            (
                Fault::CallUnderNone { name: name() },
                "the server makes calls although tool_choice is none",
            ),
            (
                Fault::UnknownTool {
                    call: 0,
                    name: name(),
                },
                "the calls name tools that the request does not offer",
            ),
            (
                Fault::WrongTool {
                    call: 0,
                    name: name(),
                },
                "the calls name tools that tool_choice excludes",
            ),
            (Fault::MissingCallId { call: 0 }, "the calls have no id"),
            (
                Fault::DuplicateCallId {
                    call: 0,
                    id: name(),
                },
                "calls have the id of another",
            ),
            (
                arguments(schema_reason("type")),
                "the arguments violate the keyword `type` of the schema; the server may not enforce it",
            ),
            (
                arguments(not_json(EXPECTED_VALUE, 0)),
                "the arguments of the calls do not have the form of their tool",
            ),
            (
                Fault::ArgumentsNotText {
                    call: 0,
                    name: name(),
                },
                "the arguments of the calls are not strings; clients cannot parse them",
            ),
            (
                Fault::TooManyCalls { calls: 2 },
                "the server makes several calls although parallel_tool_calls is false",
            ),
            (
                Fault::MissingCall,
                "the answers have no call although tool_choice requires one",
            ),
            (
                Fault::WrongFinishReason {
                    finish_reason: "stop".to_owned(),
                    calls: 1,
                },
                "the calls are right, and the finish reason \"stop\" does not fit them; clients that read it end early",
            ),
        ];
        let calls = calls
            .into_iter()
            .map(|(fault, expected)| (Reason::ToolCall(fault), expected));
        texts.into_iter().chain(calls).collect()
    }

    #[test]
    fn the_headline_follows_from_the_reason() {
        let schema = Constraint::JsonSchema(Arc::new(json!({"type": "object"})));
        let mut names = BTreeSet::new();
        for (reason, expected) in table() {
            names.insert(reason.name());
            let causes = [(BreachCause::new(&reason, Some(&schema)), 8)];
            assert_eq!(
                headline(&causes, FIELD, false).unwrap(),
                format!("none of 8 constrained answers follows its constraint: {expected}"),
                "{reason:?}"
            );
        }
        assert_eq!(names, BTreeSet::from(Reason::NAMES));
        let empty = json!({"type": "object", "properties": {"e": {"enum": []}}, "required": ["e"]});
        let tools = json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": &empty}}]});
        let tools = ToolSet::from_members(tools.as_object().unwrap()).unwrap();
        let of_call = Reason::ToolCall(ToolCallFault::InvalidArguments {
            call: 0,
            name: "f".to_owned(),
            why: Box::new(schema_reason("enum")),
        });
        for (reason, constraint) in [
            (
                not_json(EXPECTED_VALUE, 6),
                Constraint::JsonSchema(Arc::new(empty)),
            ),
            (of_call, Constraint::Tools(Arc::new(tools))),
        ] {
            let causes = [(BreachCause::new(&reason, Some(&constraint)), 8)];
            let line = headline(&causes, FIELD, false).unwrap();
            assert!(
                line.ends_with(
                    ": no value satisfies the schema at /properties/e: the list of `enum` is empty; the schema is at fault, not the server"
                ),
                "{line}"
            );
        }
    }

    #[test]
    fn departures_explain_what_they_break() {
        let arguments = Reason::ToolCall(ToolCallFault::InvalidArguments {
            call: 0,
            name: "f".to_owned(),
            why: Box::new(not_json("", 9)),
        });
        for (departure, reason, expected) in [
            (
                Departure::LostEvents,
                not_json("", 9),
                "the streams contradict themselves (events are missing, by their numbers); they may have broken the answers, and not the engine",
            ),
            (
                Departure::SharedIndex,
                arguments.clone(),
                "several calls share an index; clients read one call with the arguments of all",
            ),
            (Departure::SharedIndex, Reason::Empty, ""),
            (
                Departure::RepeatedCalls,
                Reason::Truncated,
                "the same call up to the token limit: a larger --output-len does not help",
            ),
            (
                Departure::ContentFilter,
                not_json("", 9),
                "the server's content filter ended the answer",
            ),
            (Departure::RepeatedName, arguments, ""),
        ] {
            let mut departures = Departures::default();
            departures.add(departure, "");
            let cause = BreachCause::of_departures(&departures, &reason);
            assert!(
                cause
                    .as_ref()
                    .is_none_or(|cause| !cause.is_of_enforcement())
            );
            let found = cause.map_or_else(String::new, |cause| cause.to_string());
            assert_eq!(found, expected, "{departure:?} {reason:?}");
        }
    }

    #[test]
    fn several_reasons_have_one_headline() {
        let causes = |reasons: &[(Reason, usize)]| {
            let counted = reasons
                .iter()
                .map(|(reason, count)| (BreachCause::new(reason, None), *count));
            let counted: Vec<_> = counted.collect();
            headline(&counted, FIELD, true).unwrap()
        };
        assert_eq!(
            causes(&[(Reason::Choice, 5), (Reason::Empty, 2)]),
            "none of 7 constrained answers follows its constraint: the answers look unconstrained (most often, in 5); the server may ignore the field of response-format"
        );
        assert_eq!(
            causes(&[(Reason::Empty, 2), (Reason::Choice, 2)]),
            "none of 4 constrained answers follows its constraint, for several reasons, listed below"
        );
        assert_eq!(
            causes(&[(schema_reason("type"), 2), (schema_reason("pattern"), 2)]),
            "none of 4 constrained answers follows its constraint: they violate several keywords (`type` 2, `pattern` 2); the server may enforce JSON without the schema"
        );
        assert_eq!(headline(&[], FIELD, false), None);
    }

    #[test]
    fn texts_are_told_from_broken_json() {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        let schema = Constraint::JsonSchema(Arc::new(json!({"type": "object"})));
        for (text, is_prose) in [
            ("Sure, it is positive.", true),
            ("\n\nNo.", true),
            ("truth is", true),
            ("{'a': 1}", false),
            ("{\"a\": x}", false),
            ("[1", false),
        ] {
            let verdict = judge_text(&evaluator.compile(&schema), text);
            let reason = verdict.into_reason().unwrap();
            let cause = BreachCause::new(&reason, Some(&schema));
            assert_eq!(
                cause == BreachCause::Unconstrained,
                is_prose,
                "{text}: {cause:?}"
            );
        }
    }
}
