//! Fields beside prompt, sampling and constraint that some kinds have and others do not. Knows no case.
//!
//! Sources: OpenAI's API reference; vLLM's `protocol.py`, which its fork, SGLang, LMDeploy and TensorRT-LLM follow here; SGLang's
//! `GenerateReqInput`; the README of llama.cpp's server; `GenerateParameters` of TGI 3. Ollama's and Triton's fields could not be
//! confirmed, or have no number.

use serde_json::{Map, Value, json};

use super::ServerKind;

/// The fields that ask for the log probabilities of the `n` likeliest tokens at each place; `None` where a kind has none.
///
/// vLLM's own client sends the field to completions only.
pub fn logprobs(kind: ServerKind, n: u32) -> Option<Map<String, Value>> {
    let fields = match kind {
        ServerKind::Vllm | ServerKind::Openai | ServerKind::Aphrodite | ServerKind::Scalellm => json!({"logprobs": n}),
        ServerKind::OpenaiChat | ServerKind::TrtllmServe | ServerKind::Lmdeploy => json!({"logprobs": true, "top_logprobs": n}),
        ServerKind::OpenaiResponses => json!({"include": ["message.output_text.logprobs"], "top_logprobs": n}),
        ServerKind::Sglang => json!({"return_logprob": true, "top_logprobs_num": n}),
        ServerKind::LlamaCpp => json!({"n_probs": n}),
        ServerKind::Tgi => json!({"parameters": {"top_n_tokens": n}}),
        ServerKind::TensorrtLlm
        | ServerKind::DeepspeedMii
        | ServerKind::Ollama
        | ServerKind::OpenaiAudio
        | ServerKind::OpenaiEmbeddings
        | ServerKind::VllmPooling
        | ServerKind::VllmRerank => return None,
    };
    fields.as_object().cloned()
}

/// Whether a request of this kind says which model it asks for.
pub fn names_model(kind: ServerKind) -> bool {
    !matches!(kind, ServerKind::Sglang | ServerKind::Tgi | ServerKind::TensorrtLlm)
}

/// The field that hands variables to the server's chat template; `None` where a kind has no such field, or no template.
pub fn template_variables(kind: ServerKind) -> Option<&'static str> {
    matches!(kind, ServerKind::OpenaiChat | ServerKind::TrtllmServe | ServerKind::Lmdeploy).then_some("chat_template_kwargs")
}
