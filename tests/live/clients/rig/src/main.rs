//! Reads streams of chat completions with rig: names as JSON lines on stdin, what it read as JSON
//! lines on stdout. The argument is the address of the server.

use std::error::Error;

use rig_core::Model;
use rig_core::completion::{CompletionRequest, FinishReason, ToolDefinition};
use rig_core::message::{StopReason, ToolName};
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::wire::Chat;
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("no address")?;
    let config = OpenAIConfig::new("none").with_base_url(format!("{url}/v1"));
    let model = config.client().chat("m");
    for line in std::io::stdin().lines() {
        let name: String = serde_json::from_str(&line?)?;
        let found = match read(&model, name).await {
            Ok(found) => found,
            Err(error) => json!({ "error": error }),
        };
        println!("{found}");
    }
    Ok(())
}

async fn read(model: &Model<Chat>, name: String) -> Result<Value, String> {
    let tool = ToolName::new("get_weather").map_err(|error| error.to_string())?;
    let tool = ToolDefinition::new(tool, "Weather", json!({"type": "object"}));
    let stream = model.stream(CompletionRequest::new(name).tool(tool));
    let response = stream.map_err(|_| "ProviderError")?.finish().await;
    let response = response.map_err(|_| "ProviderError")?;
    let finish_reason = response.finish_reason();
    // A filter ends an answer that is complete as it is.
    let is_filtered = finish_reason == Some(FinishReason::ContentFilter);
    if matches!(response.stop(), StopReason::Error(_)) && !is_filtered {
        return Err("StopReason::Error".to_owned());
    }
    let call = |call: &rig_core::message::ToolCall| {
        // Arguments that are no object have their text.
        let arguments = match &call.function.invalid_arguments {
            Some(text) => json!(text),
            None => call.function.arguments_value(),
        };
        let id = call.id.provider().map(|id| id.as_str().to_owned());
        json!([id, call.function.name.as_str(), arguments])
    };
    let calls: Vec<Value> = response.tool_calls().map(call).collect();
    let finish_reason = finish_reason.map(|reason| format!("{reason:?}"));
    Ok(json!({"content": response.text(), "calls": calls, "finish_reason": finish_reason}))
}
