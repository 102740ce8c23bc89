//! Request fields that turn the thinking of a model on and off.
//!
//! Sources: vLLM's page "Reasoning Outputs" and SGLang's page "Reasoning Parser" (variables of the
//! chat template: `enable_thinking` for Qwen 3, GLM 4.5 and Gemma 4, `thinking` for DeepSeek 3.1 and
//! Granite), llama.cpp's pull requests 20479 and 27221 (`reasoning_effort`), OpenAI's API reference
//! (`reasoning_effort`, and `reasoning` of a model response), Ollama's API reference (`think`),
//! Anthropic's guide "Adaptive thinking" (`thinking`).

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ServerKind;
use sobench_core::case::Arm;

/// A way to turn thinking on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingSwitch {
    /// Variables of the chat template. Templates ignore those that they do not use.
    ChatTemplateKwargs,
    /// `reasoning_effort` of chat completions.
    ReasoningEffort,
    /// `reasoning.effort` of the responses endpoint.
    Reasoning,
    /// Ollama's `think`.
    Think,
    /// Anthropic's `thinking`.
    Thinking,
}

impl ThinkingSwitch {
    /// The name of the field.
    pub fn field(self) -> &'static str {
        match self {
            Self::ChatTemplateKwargs => "chat_template_kwargs",
            Self::ReasoningEffort => "reasoning_effort",
            Self::Reasoning => "reasoning",
            Self::Think => "think",
            Self::Thinking => "thinking",
        }
    }

    /// The value of the field.
    pub fn value(self, is_on: bool) -> Value {
        let effort = if is_on { "medium" } else { "none" };
        match self {
            Self::ChatTemplateKwargs => json!({"enable_thinking": is_on, "thinking": is_on}),
            Self::ReasoningEffort => effort.into(),
            Self::Reasoning => json!({"effort": effort}),
            Self::Think => is_on.into(),
            Self::Thinking => json!({"type": if is_on { "adaptive" } else { "disabled" }}),
        }
    }

    /// Adds the field to the extra fields of a request. Members of an object that the user set
    /// stay, except for the switch itself.
    pub fn add_to(self, extra: &mut Map<String, Value>, is_on: bool) {
        let value = self.value(is_on);
        match (extra.get_mut(self.field()), value) {
            (Some(Value::Object(known)), Value::Object(members)) => known.extend(members),
            (_, value) => {
                extra.insert(self.field().to_owned(), value);
            }
        }
    }
}

impl ServerKind {
    /// The ways to turn thinking on and off, in the order to try them. Empty if the kind has none.
    pub fn thinking_switches(self) -> &'static [ThinkingSwitch] {
        self.spec().thinking_switches
    }

    /// The switch of a run with these arms: the first one of the kind, if an arm needs it.
    pub fn thinking_switch_for(self, arms: &[Arm]) -> Option<ThinkingSwitch> {
        let first = self.thinking_switches().first().copied();
        first.filter(|_| arms.contains(&Arm::ThinkConstraint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_user_stay() {
        let mut extra = Map::new();
        extra.insert(
            "chat_template_kwargs".to_owned(),
            json!({"enable_thinking": true, "language": "en"}),
        );
        ThinkingSwitch::ChatTemplateKwargs.add_to(&mut extra, false);
        ThinkingSwitch::ReasoningEffort.add_to(&mut extra, true);
        assert_eq!(
            Value::Object(extra),
            json!({
                "chat_template_kwargs": {"enable_thinking": false, "language": "en", "thinking": false},
                "reasoning_effort": "medium",
            })
        );
    }

    #[test]
    fn kinds_with_chat_messages_have_a_switch() {
        for kind in ServerKind::ALL {
            assert_eq!(
                kind.takes_messages(),
                !kind.thinking_switches().is_empty(),
                "{kind}"
            );
        }
    }
}
