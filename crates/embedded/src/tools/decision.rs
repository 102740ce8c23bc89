//! Decides whether and what the synthetic model calls, since a model of n-grams never would.

use crate::seeds::Draws;
use sobench_core::tools::{ToolChoice, ToolSet};

/// Share of requests that get a call if the model decides.
const CALL_SHARE: f64 = 0.75;

/// Share of answers with calls that have two of them, if several are allowed.
const SECOND_CALL_SHARE: f64 = 0.5;

/// Share of answers with calls that start with content, if the model decides.
const CONTENT_SHARE: f64 = 0.25;

/// Tokens of content: the smallest number, and the number of values above it.
const WORDS: (u32, u32) = (12, 24);

/// Share of optional parameters that the model writes, where it has to name them.
const OPTIONAL_SHARE: f64 = 0.4;

/// What the model writes. The constraint allows all of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// Tokens of content before the calls, or of the whole answer. Zero for no content.
    pub(crate) words: u32,
    /// Indices of the called tools.
    pub(crate) calls: Vec<usize>,
    /// Draws of details.
    pub(crate) draws: Draws,
}

impl Decision {
    /// One of the values of a parameter.
    pub(super) fn choose<'a, T>(&mut self, values: &'a [T]) -> Option<&'a T> {
        values.get(self.draws.below(values.len()))
    }

    /// Whether an optional parameter is written.
    pub(super) fn writes_optional(&mut self) -> bool {
        self.draws.unit() < OPTIONAL_SHARE
    }
}

/// Decides for a request with these tools. The seed determines the decision.
pub(crate) fn decide(tools: &ToolSet, seed: u64) -> Decision {
    let draws = Draws::new(seed, "tools");
    match &tools.choice {
        ToolChoice::None => text(draws),
        choice if choice.requires_call() => calls(tools, draws),
        _ => decide_freely(tools, draws),
    }
}

/// A decision to call a tool, also if the choice of the request does not allow one.
pub(crate) fn decide_call(tools: &ToolSet, seed: u64) -> Decision {
    let every = ToolSet {
        choice: ToolChoice::Required,
        ..tools.clone()
    };
    decide(&every, seed)
}

fn decide_freely(tools: &ToolSet, mut draws: Draws) -> Decision {
    if draws.unit() >= CALL_SHARE {
        return text(draws);
    }
    let words = if draws.unit() < CONTENT_SHARE {
        words(&mut draws)
    } else {
        0
    };
    Decision {
        words,
        ..calls(tools, draws)
    }
}

fn text(mut draws: Draws) -> Decision {
    Decision {
        words: words(&mut draws),
        calls: Vec::new(),
        draws,
    }
}

fn words(draws: &mut Draws) -> u32 {
    let (least, values) = WORDS;
    least + u32::try_from(draws.below(values as usize)).unwrap_or(0)
}

fn calls(tools: &ToolSet, mut draws: Draws) -> Decision {
    let allowed: Vec<usize> = (0..tools.tools.len())
        .filter(|index| tools.choice.allows(&tools.tools[*index].name))
        .collect();
    let is_named = matches!(tools.choice, ToolChoice::Named(_));
    let is_second = draws.unit() < SECOND_CALL_SHARE;
    let count = 1 + usize::from(is_second && !is_named && tools.allows_several_calls());
    let calls = (0..count)
        .map(|_| allowed[draws.below(allowed.len())])
        .collect();
    Decision {
        words: 0,
        calls,
        draws,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(choice: &Value, parallel: bool) -> ToolSet {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        let members = json!({"tools": [tool("a"), tool("b"), tool("c")], "tool_choice": choice,
            "parallel_tool_calls": parallel});
        ToolSet::from_members(members.as_object().unwrap()).unwrap()
    }

    /// Numbers of decisions of a thousand with no, one and two calls.
    fn counts(set: &ToolSet) -> [usize; 3] {
        let mut counts = [0; 3];
        for seed in 0..1000 {
            let decision = decide(set, seed);
            assert_eq!(decision, decide(set, seed));
            let names = decision.calls.iter().map(|call| &set.tools[*call].name);
            assert!(names.clone().all(|name| set.choice.allows(name)));
            assert!(decision.words > 0 || !decision.calls.is_empty());
            counts[decision.calls.len()] += 1;
        }
        counts
    }

    #[test]
    fn calls_follow_the_choice() {
        let [none, one, two] = counts(&set(&json!("auto"), true));
        assert!((200..300).contains(&none), "{none}");
        assert!(one > 300 && two > 300, "{one} {two}");
        assert_eq!(counts(&set(&json!("required"), true))[0], 0);
        assert_eq!(counts(&set(&json!("required"), false)), [0, 1000, 0]);
        assert_eq!(counts(&set(&json!("none"), true)), [1000, 0, 0]);
        let named = json!({"type": "function", "function": {"name": "b"}});
        assert_eq!(counts(&set(&named, true)), [0, 1000, 0]);
        let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}});
        assert_eq!(counts(&set(&allowed, true))[0], 0);
        assert_eq!(decide_call(&set(&json!("none"), false), 3).calls.len(), 1);
    }
}
