//! Environment variables that complete the flags.

/// The variable's value, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The API key of the server (`OPENAI_API_KEY`).
pub(crate) fn api_key() -> Option<String> {
    variable("OPENAI_API_KEY")
}

/// Whether results are saved as PyTorch benchmark records too. vLLM's switch: any text in it, `0` included, is a yes.
pub(crate) fn wants_pytorch_records() -> bool {
    std::env::var_os("SAVE_TO_PYTORCH_BENCHMARK_FORMAT").is_some_and(|value| !value.is_empty())
}
