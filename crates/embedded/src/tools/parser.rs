//! Reads tool calls from the text of an answer, piece by piece. How the text is cut into pieces
//! does not change the calls.

use std::sync::Arc;

use serde_json::Value;

use super::style::{
    Arguments, CALL_END, CUSTOM_END, CUSTOM_TRIGGER, FUNCTION, FUNCTION_END, PARAMETER,
    PARAMETER_END, ToolStyle, is_text, parameter_schema,
};
use crate::channels::{ChannelEvent, safe_bytes, take_before};
use sobench_core::tools::{Tool, ToolSet};

/// The parser of one answer.
pub(crate) struct CallParser {
    style: ToolStyle,
    tools: Arc<ToolSet>,
    /// Text that is not read yet.
    buffer: String,
    state: State,
    /// Whether a call was read. White space after it is not content.
    is_after_call: bool,
}

#[derive(Clone, Debug)]
enum State {
    Content,
    /// After the text that starts a call.
    Header {
        trigger: &'static str,
    },
    Json(JsonScan),
    /// In the parameters of a tool, after this number of them.
    Parameters {
        tool: String,
        count: usize,
    },
    /// In the input of a custom tool.
    Input,
    /// After the arguments of a call.
    End,
    /// After a call that another one may follow.
    Next,
}

/// Finds the end of a JSON value.
#[derive(Clone, Copy, Debug, Default)]
struct JsonScan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

/// Why a text cannot be read.
enum Stop {
    /// The text may be complete later.
    More,
    Malformed,
}

impl CallParser {
    pub(crate) fn new(style: ToolStyle, tools: Arc<ToolSet>) -> Self {
        Self {
            style,
            tools,
            buffer: String::new(),
            state: State::Content,
            is_after_call: false,
        }
    }

    /// Reads the next piece.
    pub(crate) fn push(&mut self, text: &str) -> Vec<ChannelEvent> {
        self.buffer.push_str(text);
        let mut events = Vec::new();
        while self.advance(&mut events) {}
        events
    }

    /// The rest of the content. The start of a call that is cut before its arguments is dropped.
    pub(crate) fn finish(&mut self) -> Vec<ChannelEvent> {
        let rest = std::mem::take(&mut self.buffer);
        let is_content = matches!(self.state, State::Content);
        let text = if self.is_after_call {
            rest.trim()
        } else {
            &rest
        };
        if is_content && !text.is_empty() {
            vec![ChannelEvent::Content(text.to_owned())]
        } else {
            Vec::new()
        }
    }

    /// Reads one element. False if more text is needed.
    fn advance(&mut self, events: &mut Vec<ChannelEvent>) -> bool {
        match self.state.clone() {
            State::Content => self.content(events),
            State::Header { trigger } => self.header(trigger, events),
            State::Json(scan) => self.json(scan, events),
            State::Parameters { tool, count } => self.parameter(&tool, count, events),
            State::Input => self.input(events),
            State::End => self.end(),
            State::Next => self.next(),
        }
    }

    fn content(&mut self, events: &mut Vec<ChannelEvent>) -> bool {
        let triggers = [self.style.spec().trigger, CUSTOM_TRIGGER];
        let found = triggers
            .into_iter()
            .filter_map(|trigger| Some((self.buffer.find(trigger)?, trigger)))
            .min();
        if let Some((start, trigger)) = found {
            let text = self.buffer[..start].trim_end().to_owned();
            self.buffer.drain(..start + trigger.len());
            self.add_content(text, events);
            self.state = State::Header { trigger };
            return true;
        }
        // White space before a call is not content.
        let safe = safe_bytes(&self.buffer, &triggers);
        let safe = self.buffer[..safe].trim_end().len();
        let text: String = self.buffer.drain(..safe).collect();
        self.add_content(text, events);
        false
    }

    fn add_content(&mut self, text: String, events: &mut Vec<ChannelEvent>) {
        let text = if self.is_after_call {
            text.trim_start().to_owned()
        } else {
            text
        };
        if !text.is_empty() {
            self.is_after_call = false;
            events.push(ChannelEvent::Content(text));
        }
    }

    fn header(&mut self, trigger: &'static str, events: &mut Vec<ChannelEvent>) -> bool {
        let is_custom = trigger == CUSTOM_TRIGGER;
        let arguments = self.style.spec().arguments;
        let mut cursor = Cursor(&self.buffer);
        let name = match (is_custom, arguments) {
            (true, _) => cursor.until(">"),
            (false, Arguments::Json) => cursor.json_header(),
            (false, Arguments::Xml) => cursor.xml_header(),
        };
        match name {
            Err(Stop::More) => return false,
            Err(Stop::Malformed) => {
                // Not a call: the text is content, as in vLLM.
                events.push(ChannelEvent::Content(trigger.to_owned()));
                self.is_after_call = false;
                self.state = State::Content;
                return true;
            }
            Ok(name) => {
                let read = self.buffer.len() - cursor.0.len();
                self.buffer.drain(..read);
                self.state = match (is_custom, arguments) {
                    (true, _) => State::Input,
                    (false, Arguments::Json) => State::Json(JsonScan::default()),
                    (false, Arguments::Xml) => State::Parameters {
                        tool: name.clone(),
                        count: 0,
                    },
                };
                self.is_after_call = true;
                events.push(ChannelEvent::CallStart { name, is_custom });
            }
        }
        true
    }

    fn json(&mut self, mut scan: JsonScan, events: &mut Vec<ChannelEvent>) -> bool {
        let end = scan.end(&self.buffer);
        let read = end.unwrap_or(self.buffer.len());
        let text: String = self.buffer.drain(..read).collect();
        if !text.is_empty() {
            events.push(ChannelEvent::Arguments(text));
        }
        self.state = end.map_or(State::Json(scan), |_| State::End);
        end.is_some()
    }

    fn parameter(&mut self, tool: &str, count: usize, events: &mut Vec<ChannelEvent>) -> bool {
        let mut cursor = Cursor(&self.buffer);
        let read = cursor.parameter();
        let left = cursor.0.len();
        match read {
            Err(Stop::More) => return false,
            Ok(Some((name, value))) => {
                let value = self.parameter_value(tool, &name, value.trim());
                let start = if count == 0 { "{" } else { ", " };
                let member = format!("{start}{}: {value}", Value::from(name));
                events.push(ChannelEvent::Arguments(member));
                self.state = State::Parameters {
                    tool: tool.to_owned(),
                    count: count + 1,
                };
            }
            Ok(None) | Err(Stop::Malformed) => {
                let end = if count == 0 { "{}" } else { "}" };
                events.push(ChannelEvent::Arguments(end.to_owned()));
                self.state = State::End;
            }
        }
        let read = self.buffer.len() - left;
        self.buffer.drain(..read);
        true
    }

    /// The value of a parameter: a text if its schema allows nothing else, or if it is not JSON.
    fn parameter_value(&self, tool: &str, name: &str, text: &str) -> Value {
        let parameters = self.tools.tool(tool).and_then(Tool::parameters);
        let schema = parameters.and_then(|parameters| parameter_schema(parameters, name));
        let json = || serde_json::from_str(text).ok();
        let value = match schema {
            Some(schema) if is_text(schema) => None,
            _ => json(),
        };
        value.unwrap_or_else(|| Value::from(text))
    }

    fn input(&mut self, events: &mut Vec<ChannelEvent>) -> bool {
        let (text, is_end) = take_before(&mut self.buffer, CUSTOM_END);
        if !text.is_empty() {
            events.push(ChannelEvent::Arguments(text));
        }
        if is_end {
            self.state = State::Content;
        }
        is_end
    }

    fn end(&mut self) -> bool {
        if self.style.spec().start.is_empty() {
            let (_, is_end) = take_before(&mut self.buffer, CALL_END);
            if is_end {
                self.state = State::Content;
            }
            return is_end;
        }
        let mut cursor = Cursor(&self.buffer);
        let closed = cursor.symbol("}");
        let left = cursor.0.len();
        if matches!(closed, Err(Stop::More)) {
            return false;
        }
        self.buffer.drain(..self.buffer.len() - left);
        self.state = State::Next;
        true
    }

    fn next(&mut self) -> bool {
        let mut cursor = Cursor(&self.buffer);
        let separated = cursor.symbol(self.style.spec().separator.trim());
        let left = cursor.0.len();
        self.state = match separated {
            Err(Stop::More) => return false,
            Err(Stop::Malformed) => State::Content,
            Ok(()) => {
                self.buffer.drain(..self.buffer.len() - left);
                State::Header {
                    trigger: self.style.spec().trigger,
                }
            }
        };
        true
    }
}

impl JsonScan {
    /// The position after the value, if it ends in the text.
    fn end(&mut self, text: &str) -> Option<usize> {
        for (index, byte) in text.bytes().enumerate() {
            if self.in_string {
                let is_end = byte == b'"' && !self.is_escaped;
                self.is_escaped = byte == b'\\' && !self.is_escaped;
                self.in_string = !is_end;
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' | b']' if self.depth == 1 => return Some(index + 1),
                // The end of a value that is neither object nor list.
                b'}' | b']' | b',' if self.depth == 0 => return Some(index),
                _ => {}
            }
        }
        None
    }
}

/// The unread part of a text.
struct Cursor<'t>(&'t str);

impl Cursor<'_> {
    fn space(&mut self) {
        self.0 = self.0.trim_start();
    }

    /// Reads a symbol and the white space before it.
    fn symbol(&mut self, symbol: &str) -> Result<(), Stop> {
        self.space();
        if let Some(rest) = self.0.strip_prefix(symbol) {
            self.0 = rest;
            return Ok(());
        }
        Err(if symbol.starts_with(self.0) {
            Stop::More
        } else {
            Stop::Malformed
        })
    }

    /// The text before `end`, which is read too.
    fn until(&mut self, end: &str) -> Result<String, Stop> {
        let (text, rest) = self.0.split_once(end).ok_or(Stop::More)?;
        let text = text.to_owned();
        self.0 = rest;
        Ok(text)
    }

    fn string(&mut self) -> Result<String, Stop> {
        self.symbol("\"")?;
        let mut is_escaped = false;
        let end = self.0.bytes().position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        let end = end.ok_or(Stop::More)?;
        let text = serde_json::from_str(&format!("\"{}\"", &self.0[..end]));
        self.0 = &self.0[end + 1..];
        text.map_err(|_| Stop::Malformed)
    }

    /// `{"name": NAME, "arguments": ` or `"parameters": `, up to the first character of the value.
    fn json_header(&mut self) -> Result<String, Stop> {
        self.symbol("{")?;
        if self.string()? != "name" {
            return Err(Stop::Malformed);
        }
        self.symbol(":")?;
        let name = self.string()?;
        self.symbol(",")?;
        if !matches!(self.string()?.as_str(), "arguments" | "parameters") {
            return Err(Stop::Malformed);
        }
        self.symbol(":")?;
        self.space();
        if self.0.is_empty() {
            return Err(Stop::More);
        }
        Ok(name)
    }

    fn xml_header(&mut self) -> Result<String, Stop> {
        self.symbol(FUNCTION)?;
        self.until(">")
    }

    /// The name and the value of the next parameter, or the end of the function.
    fn parameter(&mut self) -> Result<Option<(String, String)>, Stop> {
        match self.symbol(FUNCTION_END) {
            Err(Stop::Malformed) => {}
            read => return read.map(|()| None),
        }
        self.symbol(PARAMETER)?;
        let name = self.until(">")?;
        Ok(Some((name, self.until(PARAMETER_END)?)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools() -> Arc<ToolSet> {
        let schema = json!({"type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]},
            "near": {"type": ["string", "null"]}, "tags": {"type": "array"}}});
        let tools = json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}},
            {"type": "custom", "custom": {"name": "g"}}]});
        Arc::new(ToolSet::from_members(tools.as_object().unwrap()).unwrap())
    }

    fn joined(events: Vec<ChannelEvent>) -> Vec<ChannelEvent> {
        let mut joined: Vec<ChannelEvent> = Vec::new();
        for event in events {
            match (joined.last_mut(), event) {
                (Some(ChannelEvent::Content(text)), ChannelEvent::Content(more))
                | (Some(ChannelEvent::Arguments(text)), ChannelEvent::Arguments(more)) => {
                    text.push_str(&more);
                }
                (_, event) => joined.push(event),
            }
        }
        joined
    }

    fn read(style: ToolStyle, pieces: &[&str]) -> Vec<ChannelEvent> {
        let mut parser = CallParser::new(style, tools());
        let mut events: Vec<ChannelEvent> =
            pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        events.extend(parser.finish());
        joined(events)
    }

    /// Events of a text, which are the same for each cut into two pieces and for single characters.
    #[track_caller]
    fn check(style: ToolStyle, text: &str, expected: &[ChannelEvent]) {
        assert_eq!(read(style, &[text]), expected, "{text}");
        for (cut, _) in text.char_indices() {
            let (start, end) = text.split_at(cut);
            assert_eq!(read(style, &[start, end]), expected, "cut at {cut}: {text}");
        }
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(read(style, &characters), expected, "by character: {text}");
    }

    fn content(text: &str) -> ChannelEvent {
        ChannelEvent::Content(text.to_owned())
    }

    fn call(name: &str, arguments: &str) -> [ChannelEvent; 2] {
        [
            ChannelEvent::CallStart {
                name: name.to_owned(),
                is_custom: false,
            },
            ChannelEvent::Arguments(arguments.to_owned()),
        ]
    }

    #[test]
    fn hermes_calls() {
        let style = ToolStyle::Hermes;
        let arguments = r#"{"a": "}\"]", "b": [{"c": "é{"}]}"#;
        let first =
            format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {arguments}}}\n</tool_call>");
        check(style, &first, &call("f", arguments));
        let two = format!(
            "Let me see.\n\n{first}\n<tool_call>{{\"name\":\"g\" , \"parameters\":{{}} }}</tool_call>\nDone <b> "
        );
        let expected = [
            &[content("Let me see.")][..],
            &call("f", arguments),
            &call("g", "{}"),
            &[content("Done <b> ")],
        ]
        .concat();
        check(style, &two, &expected);
    }

    #[test]
    fn text_that_is_not_a_call_is_content() {
        for text in [
            "plain <tool text ",
            "<tool_call>\nnot JSON",
            "<tool_call>{\"nome\": \"f\"}</tool_call>",
            " \n",
            "",
        ] {
            let expected: Vec<ChannelEvent> = if text.is_empty() {
                Vec::new()
            } else {
                vec![content(text)]
            };
            check(ToolStyle::Hermes, text, &expected);
        }
    }

    #[test]
    fn cut_calls_keep_their_arguments_so_far() {
        check(
            ToolStyle::Hermes,
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"x",
            &call("f", "{\"a\": [1, \"x"),
        );
        check(ToolStyle::Hermes, "<tool_call>\n{\"name\": \"f\", ", &[]);
        check(
            ToolStyle::Qwen3Coder,
            "<tool_call>\n<function=f>\n<parameter=days>\n7\n</parameter>\n<parameter=city>\nPa",
            &call("f", "{\"days\": 7"),
        );
    }

    #[test]
    fn llama_calls() {
        let text = "Yes. <|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"f\", \"parameters\": {}}";
        let expected = [
            &[content("Yes.")][..],
            &call("f", "{\"a\": 1}"),
            &call("f", "{}"),
        ]
        .concat();
        check(ToolStyle::Llama3, text, &expected);
    }

    #[test]
    fn qwen3_coder_calls() {
        let text = "<tool_call>\n<function=f>\n<parameter=city>\n12 \"a\"\n</parameter>\n<parameter=days>\n7\n</parameter>\n\
            <parameter=unit>C</parameter>\n<parameter=near>\nnull\n</parameter>\n<parameter=tags>\n[\"x\"]\n</parameter>\n\
            </function>\n</tool_call>\n<tool_call>\n<function=f>\n</function>\n</tool_call>";
        let arguments =
            r#"{"city": "12 \"a\"", "days": 7, "unit": "C", "near": null, "tags": ["x"]}"#;
        check(
            ToolStyle::Qwen3Coder,
            text,
            &[call("f", arguments), call("f", "{}")].concat(),
        );
    }

    #[test]
    fn calls_of_custom_tools_are_texts() {
        for style in ToolStyle::ALL {
            let expected = [
                ChannelEvent::CallStart {
                    name: "g".to_owned(),
                    is_custom: true,
                },
                ChannelEvent::Arguments(" a < b\n</custom>".to_owned()),
            ];
            check(
                style,
                "<custom_call=g> a < b\n</custom></custom_call>",
                &expected,
            );
        }
    }
}
