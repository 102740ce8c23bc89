//! Requests with tools of random names, whose prompts ask for what the request forbids.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ToolQuestion, ToolRow};
use crate::constraint_probe::RandomWords;
use sobench_backend::ServerKind;
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::tools::{Tool, ToolChoice, ToolInput, ToolSet};

/// A function with one member, which has a random name and random values.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// The name of the member.
    pub member: String,
    /// The values that the schema allows.
    pub allowed: Vec<String>,
    /// The value that the prompt requests, which the schema does not allow.
    pub requested: String,
}

/// A request with two functions.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolProbe {
    /// `None` for a control.
    pub question: Option<ToolQuestion>,
    /// The tools that are sent and that judge the answer.
    pub constraint: Arc<Constraint>,
    pub prompt: String,
    /// The second one is the named or allowed one, where the prompt asks for the first.
    pub functions: [Function; 2],
}

/// How the functions are described.
#[derive(Clone, Copy)]
enum Schemas {
    /// The schemas allow only some values.
    Closed { strict: bool },
    /// The schemas allow any string, and the values are in descriptions.
    Open,
}

impl Function {
    fn random(values: usize, words: &mut RandomWords) -> Self {
        Self {
            name: words.word(),
            member: words.word(),
            allowed: (0..values).map(|_| words.word()).collect(),
            requested: words.word(),
        }
    }

    /// The schema of the arguments. One value is a constant, several are an enumeration.
    fn schema(&self, is_closed: bool) -> Value {
        let member = match self.allowed.as_slice() {
            values if !is_closed => {
                let values = values.join(" or ");
                json!({"type": "string", "description": format!("{values}; no other value is allowed")})
            }
            [value] => json!({"type": "string", "const": value}),
            values => json!({"type": "string", "enum": values}),
        };
        json!({
            "type": "object",
            "properties": {&self.member: member},
            "required": [&self.member],
            "additionalProperties": false,
        })
    }

    fn tool(&self, schemas: Schemas, backend: ServerKind) -> Tool {
        let (is_closed, strict) = match schemas {
            Schemas::Closed { strict } => (true, strict),
            Schemas::Open => (false, false),
        };
        // Left out where that means the same, as most clients do.
        let strict = (strict || backend.is_strict_by_default()).then_some(strict);
        Tool {
            input: ToolInput::Function {
                parameters: Some(self.schema(is_closed)),
                strict,
            },
            ..Tool::function(&self.name, Value::Null)
        }
    }

    fn request(&self) -> String {
        format!(
            "{} with {} set to exactly \"{}\"",
            self.name, self.member, self.requested
        )
    }
}

impl ToolProbe {
    /// A request that shows whether a demand is enforced.
    pub fn random(question: ToolQuestion, words: &mut RandomWords, backend: ServerKind) -> Self {
        let functions = Self::functions(words);
        let [first, second] = &functions;
        let choice = match question.row {
            ToolRow::Required => ToolChoice::Required,
            ToolRow::Named => ToolChoice::Named(second.name.clone()),
            ToolRow::None => ToolChoice::None,
            ToolRow::AllowedTools => ToolChoice::Allowed {
                is_required: true,
                names: vec![second.name.clone()],
            },
            ToolRow::Auto | ToolRow::Parallel | ToolRow::OneCall => ToolChoice::Auto,
        };
        let parallel_tool_calls = match question.row {
            ToolRow::Parallel => Some(true),
            ToolRow::OneCall => Some(false),
            _ => None,
        };
        let prompt = match question.row {
            ToolRow::Required => words_prompt(&first.requested),
            ToolRow::Parallel | ToolRow::OneCall => two_calls_prompt(&functions),
            _ => call_prompt(first),
        };
        let schemas = Schemas::Closed {
            strict: question.strict,
        };
        Self {
            question: Some(question),
            constraint: tools(&functions, schemas, choice, parallel_tool_calls, backend),
            prompt,
            functions,
        }
    }

    /// Asks for a call where nothing is enforced.
    pub fn control(words: &mut RandomWords, backend: ServerKind) -> Self {
        let functions = Self::functions(words);
        Self {
            question: None,
            constraint: tools(&functions, Schemas::Open, ToolChoice::Auto, None, backend),
            prompt: call_prompt(&functions[0]),
            functions,
        }
    }

    /// Asks for plain words where nothing is enforced.
    pub fn unasked(words: &mut RandomWords, backend: ServerKind) -> Self {
        let functions = Self::functions(words);
        Self {
            question: None,
            constraint: tools(&functions, Schemas::Open, ToolChoice::Auto, None, backend),
            prompt: words_prompt(&functions[0].requested),
            functions,
        }
    }

    fn functions(words: &mut RandomWords) -> [Function; 2] {
        [2, 1].map(|values| Function::random(values, words))
    }

    /// The request, with at most `output_len` output tokens.
    pub fn case(&self, output_len: u32) -> Case {
        self.case_with(Some(Arc::clone(&self.constraint)), output_len)
    }

    /// The same prompt alone, for one output token.
    pub fn case_without_tools(&self) -> Case {
        self.case_with(None, 1)
    }

    fn case_with(&self, constraint: Option<Arc<Constraint>>, output_len: u32) -> Case {
        let prompt = Prompt::Text(self.prompt.as_str().into());
        Case::new("preflight-tool", prompt, constraint, output_len)
    }

    /// What is demanded; of a control nothing more than of `auto`.
    pub fn row(&self) -> ToolRow {
        self.question.map_or(ToolRow::Auto, |question| question.row)
    }

    /// What is tested, in messages.
    pub fn label(&self) -> String {
        self.question.map_or_else(
            || "control of tool calls".to_owned(),
            |question| format!("tool call, {question}"),
        )
    }
}

fn tools(
    functions: &[Function; 2],
    schemas: Schemas,
    choice: ToolChoice,
    parallel_tool_calls: Option<bool>,
    backend: ServerKind,
) -> Arc<Constraint> {
    let tools = functions
        .iter()
        .map(|function| function.tool(schemas, backend));
    Arc::new(Constraint::Tools(Arc::new(ToolSet {
        tools: tools.collect(),
        choice,
        parallel_tool_calls,
    })))
}

/// Asks for plain words with one word that a call could have as its value.
fn words_prompt(word: &str) -> String {
    format!(
        "Write one short sentence about the weather at sea with the word {word} in it, in plain words. Do not call a function."
    )
}

fn call_prompt(function: &Function) -> String {
    format!(
        "Call the function {}. Use this value even if the description of the function names other values. Answer with the call alone.",
        function.request()
    )
}

fn two_calls_prompt([first, second]: &[Function; 2]) -> String {
    format!(
        "Call two functions in one answer: {}, and {}. Use these values even if the descriptions of the functions name other values. Answer with the two calls alone.",
        first.request(),
        second.request()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_ask_for_what_the_schemas_forbid() {
        for question in ToolQuestion::ALL {
            let probe =
                ToolProbe::random(question, &mut RandomWords::new(3), ServerKind::OpenaiChat);
            let set = probe.constraint.tools().unwrap();
            let [first, second] = &probe.functions;
            assert!(probe.prompt.contains(&first.requested), "{question}");
            for function in [first, second] {
                assert!(
                    function
                        .allowed
                        .iter()
                        .all(|value| !probe.prompt.contains(value)),
                    "{question}"
                );
                assert!(!function.allowed.contains(&function.requested));
            }
            if matches!(
                set.choice,
                ToolChoice::Named(_) | ToolChoice::Allowed { .. }
            ) {
                assert!(set.choice.allows(&second.name) && !set.choice.allows(&first.name));
                assert!(!probe.prompt.contains(&second.name), "{question}");
            }
            assert!(
                set.tools
                    .iter()
                    .all(|tool| tool.is_strict() == question.strict)
            );
            // The set is one that a request can have.
            let members = set.to_members(sobench_core::tools::ToolForm::Chat);
            assert_eq!(&ToolSet::from_members(&members).unwrap(), set);
            assert_eq!(ToolQuestion::from_tools(set).strict, question.strict);
        }
    }

    #[test]
    fn controls_describe_the_values_without_a_schema() {
        let control = ToolProbe::control(&mut RandomWords::new(3), ServerKind::OpenaiResponses);
        let text = serde_json::to_string(&control.constraint).unwrap();
        assert!(
            !text.contains("enum") && !text.contains("const\""),
            "{text}"
        );
        for function in &control.functions {
            assert!(
                function.allowed.iter().all(|value| text.contains(value)),
                "{text}"
            );
        }
        assert!(
            text.contains("\"strict\":false"),
            "the responses endpoint is strict by default: {text}"
        );
    }
}
