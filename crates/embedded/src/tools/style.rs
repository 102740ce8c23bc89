//! Markup styles: how a family of models writes tool calls into its text.
//!
//! Sources: the chat templates of the models, the parsers of the same names in vLLM
//! (`vllm/tool_parsers`), and xgrammar's built-in structural tags. The synthetic model writes Llama
//! calls with the python tag in front, so that a call never looks like an answer in JSON.

use serde_json::Value;

use sobench_core::registry;

/// How one style writes a call.
pub struct StyleSpec {
    /// The name in `--embedded-tool-style`.
    pub name: &'static str,
    /// The line in `--help`.
    pub about: &'static str,
    /// Text with which calls start. It occurs nowhere else.
    pub(super) trigger: &'static str,
    /// Text of a call before the name of the tool, after it, and after the arguments.
    pub(super) call: [&'static str; 3],
    /// Text between two calls.
    pub(super) separator: &'static str,
    /// Text before the first call.
    pub(super) start: &'static str,
    pub(super) arguments: Arguments,
}

/// How arguments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arguments {
    Json,
    /// `<parameter=NAME>`, a value and `</parameter>` for each member. A text is written without
    /// quotation marks, other values as JSON.
    Xml,
}

const HERMES: StyleSpec = StyleSpec {
    name: "hermes",
    about: "Hermes and Qwen: <tool_call> with a JSON object",
    trigger: "<tool_call>",
    call: [
        "<tool_call>\n{\"name\": \"",
        "\", \"arguments\": ",
        "}\n</tool_call>",
    ],
    separator: "\n",
    start: "",
    arguments: Arguments::Json,
};

const LLAMA3: StyleSpec = StyleSpec {
    name: "llama3",
    about: "Llama 3: <|python_tag|> with JSON objects",
    trigger: "<|python_tag|>",
    call: ["{\"name\": \"", "\", \"parameters\": ", "}"],
    separator: "; ",
    start: "<|python_tag|>",
    arguments: Arguments::Json,
};

const QWEN3_CODER: StyleSpec = StyleSpec {
    name: "qwen3-coder",
    about: "Qwen3-Coder: <tool_call> with <function=NAME> and <parameter=NAME>",
    trigger: "<tool_call>",
    call: [
        "<tool_call>\n<function=",
        ">\n",
        "\n</function>\n</tool_call>",
    ],
    separator: "\n",
    start: "",
    arguments: Arguments::Xml,
};

registry! {
    /// A markup style, named as in `--embedded-tool-style`.
    #[derive(Default)]
    pub enum ToolStyle is "tool style" with StyleSpec {
        #[default]
        Hermes => HERMES,
        Llama3 => LLAMA3,
        Qwen3Coder => QWEN3_CODER,
    }
}

/// Text around the input of a custom tool, whose name follows the first one. None of the styles
/// documents custom tools; all write them like this here.
pub(super) const CUSTOM_TRIGGER: &str = "<custom_call=";
pub(super) const CUSTOM_END: &str = "</custom_call>";

/// Text around a parameter, whose name follows the first one.
pub(super) const PARAMETER: &str = "<parameter=";
pub(super) const PARAMETER_END: &str = "</parameter>";
pub(super) const FUNCTION: &str = "<function=";
pub(super) const FUNCTION_END: &str = "</function>";
pub(super) const CALL_END: &str = "</tool_call>";

/// Whether the value of a parameter is only a text, which is written without quotation marks.
pub(super) fn is_text(schema: &Value) -> bool {
    let is_string = |value: &Value| value.is_string();
    match schema.get("type") {
        Some(kind) => kind == "string",
        None => match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().all(is_string),
            (_, Some(value)) => value.is_string(),
            _ => false,
        },
    }
}

/// The schema of a parameter of these arguments. References within it are not resolved.
pub(super) fn parameter_schema<'a>(parameters: &'a Value, name: &str) -> Option<&'a Value> {
    parameters.get("properties")?.get(name)
}
