//! The dataset `tools`: requests with tools from practical domains. They need one call, several
//! calls, no call, or a tool that is not offered, and each has the expected calls.

mod variants;

use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::flags::{OrderFlags, ShortfallFlags};
use super::registry::{
    ConstraintScope, DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, ReferenceCheck, Spec,
};
use super::{
    ContextFlags, DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall, custom,
};
use sobench_core::case::{Message, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::scorer::Scorer;
use sobench_core::tools::{Tool, ToolChoice, ToolForm, ToolSet};
use sobench_pycompat::random::PythonRandom;

/// The name and version of the requests. Published results can be compared if they name the same
/// one, so the file of a version never changes.
pub const TOOLS_NAME: &str = "tools-1";
const FILE: &str = include_str!("../../shipped/tools-1.json");

/// Maximum number of tools of a request.
pub(super) const MAX_TOOLS_PER_REQUEST: usize = 500;
/// Maximum number of tools in memory, about 7 kB each. Longer runs repeat the passes.
const MAX_TOOLS_IN_MEMORY: usize = 50_000;

/// Separates the random stream of tools from other draws: the ASCII codes of `tool`, above the 64
/// bits of the seed.
const STREAM: u128 = 0x746f_6f6c << 64;

/// The flags of `tools`.
#[derive(Args, Clone, Debug, Default)]
pub struct ToolsFlags {
    /// Tools of each request of tools or requests, at most 500: its own, then those of other groups,
    /// then generated ones; several numbers make a map [default: its own]
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub tools_per_request: Vec<usize>,
}

impl ToolsFlags {
    /// # Errors
    /// A number is 0 or too large.
    pub(super) fn check(&self) -> Result<()> {
        let valid = 1..=MAX_TOOLS_PER_REQUEST;
        match self
            .tools_per_request
            .iter()
            .find(|count| !valid.contains(count))
        {
            None => Ok(()),
            Some(count) => Err(
                Error::usage(format!("--tools-per-request is {count}")).hint(format!(
                    "set --tools-per-request to a number from 1 to {MAX_TOOLS_PER_REQUEST}"
                )),
            ),
        }
    }
}

/// The options of `tools`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolsPlan {
    /// `None` means the tools of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_per_request: Option<usize>,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl DatasetKind for ToolsPlan {
    const SPEC: Spec = Spec {
        flags: &[
            ToolsFlags::augment_args,
            ContextFlags::augment_args,
            OrderFlags::augment_args,
            ShortfallFlags::augment_args,
        ],
        output_len: DOCUMENT_OUTPUT_LEN,
        references: ReferenceCheck::Generated,
        ..Spec::new("tools", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        flags.tools.check()?;
        Ok(Self {
            tools_per_request: flags.tools.tools_per_request.first().copied(),
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// Passes over the shipped requests. Each pass has the requests in the same order, and draws
    /// the tools that are not needed, and the order of all tools.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let shipped = Shipped::read()?;
        let mut requests: Vec<&Request> = shipped.requests.iter().collect();
        self.order.apply(plan.seed, &mut requests);
        let catalog = Catalog::new(&shipped, self.tools_per_request, plan.seed);
        let (passes, count, kind) = match self.shortfall {
            Shortfall::RepeatRows => {
                let passes = plan.num_prompts.div_ceil(requests.len());
                let passes = passes.min(catalog.max_passes());
                (passes, plan.num_prompts, RowsKind::Generated)
            }
            Shortfall::FewerRequests => (1, requests.len(), RowsKind::Collected(self.shortfall)),
        };
        let mut rows = Vec::new();
        for pass in 0..passes {
            let mut constraints = PassConstraints::new(&catalog, pass);
            let wanted = requests.iter().take(count - rows.len());
            rows.extend(wanted.map(|request| request.row(constraints.constraint_for(request))));
        }
        Ok(Rows::new(rows, kind, TOOLS_NAME.to_owned()))
    }
}

/// The requests with all of these tags as rows of `custom`, with the tools of their groups.
///
/// # Errors
/// No request has all of the tags.
pub(super) fn shipped_rows(filter: &[String]) -> Result<Vec<Map<String, Value>>> {
    let shipped = Shipped::read()?;
    let has_tags = |request: &&Request| filter.iter().all(|tag| request.tags.contains(tag));
    let row = |request: &Request| {
        let set = request.set(shipped.groups[request.group].tools.clone());
        let mut tags = request.tags.clone();
        tags.pop();
        let mut row = Map::new();
        row.insert("name".to_owned(), request.id.as_str().into());
        row.insert("messages".to_owned(), json!(request.messages));
        row.extend(set.to_members(ToolForm::Chat));
        row.insert("completion".to_owned(), request.reference().into());
        row.insert("tags".to_owned(), tags.into());
        row
    };
    let rows: Vec<_> = shipped.requests.iter().filter(has_tags).map(row).collect();
    if rows.is_empty() {
        return Err(Error::usage(format!(
            "no row of {TOOLS_NAME} has the tag: {}",
            filter.join(", ")
        ))
        .hint("sobench datasets show tools lists the rows"));
    }
    Ok(rows)
}

/// `count` tools in an order that `seed` decides: shipped ones, and generated ones if these are too
/// few.
///
/// # Errors
/// The count is 0 or over the number of tools of a request.
pub fn draw_tools(count: usize, seed: u64) -> Result<Vec<Tool>> {
    if !(1..=MAX_TOOLS_PER_REQUEST).contains(&count) {
        return Err(Error::usage(format!("invalid number of tools: {count}"))
            .hint(format!("give a number from 1 to {MAX_TOOLS_PER_REQUEST}")));
    }
    let shipped = Shipped::read()?;
    let families: Vec<&Tool> = shipped
        .groups
        .iter()
        .flat_map(|group| &group.tools)
        .collect();
    let mut random = PythonRandom::from_u128(STREAM | u128::from(seed));
    let generated = variants::generate(&families, &mut random);
    let mut draw = |tools: &[&Tool], count: usize| -> Vec<Tool> {
        let drawn = random.sample(tools.len(), count.min(tools.len()));
        drawn.into_iter().map(|at| tools[at].clone()).collect()
    };
    let mut tools = draw(&families, count);
    let missing = count - tools.len();
    tools.extend(draw(&generated.iter().collect::<Vec<_>>(), missing));
    random.shuffle(&mut tools);
    Ok(tools)
}

/// The file of tools and requests.
struct Shipped {
    groups: Vec<Group>,
    requests: Vec<Request>,
}

struct Group {
    tools: Vec<Tool>,
}

struct Request {
    id: String,
    /// Index of its group.
    group: usize,
    messages: Arc<[Message]>,
    choice: ToolChoice,
    parallel_tool_calls: Option<bool>,
    /// Calls in the form of BFCL's ground truth.
    expected: Vec<Map<String, Value>>,
    tags: Vec<String>,
}

impl Shipped {
    fn read() -> Result<Self> {
        let file: File = serde_json::from_str(FILE).map_err(|error| unreadable(&error))?;
        let group = |group: &FileGroup| {
            Ok(Group {
                tools: ToolSet::from_members(&group.members(None))?.tools,
            })
        };
        let groups = file.groups.iter().map(group).collect::<Result<_>>()?;
        let requests = file.requests.into_iter().map(|request: FileRequest| {
            let location = request.id.clone();
            Request::new(request, &file.groups)
                .map_err(|error| Error::internal(format!("{TOOLS_NAME}, {location}: {error}")))
        });
        Ok(Self {
            requests: requests.collect::<Result<_>>()?,
            groups,
        })
    }
}

impl Request {
    fn new(request: FileRequest, groups: &[FileGroup]) -> Result<Self> {
        let position = groups.iter().position(|group| group.name == request.group);
        let index = position.ok_or_else(|| Error::internal("unknown group"))?;
        let group = &groups[index];
        let set = ToolSet::from_members(&group.members(Some(&request)))?;
        let mut messages = vec![Message::new("system", group.system.as_str())];
        messages.extend(request.prompt.map(|prompt| Message::new("user", prompt)));
        messages.extend(request.messages);
        let mut tags = vec![format!("group:{}", group.name)];
        tags.extend(request.tags);
        tags.push(format!("tool_choice:{}", set.choice.name()));
        tags.push(format!("{}{}", custom::NAME_TAG, request.id));
        Ok(Self {
            id: request.id,
            group: index,
            messages: messages.into(),
            choice: set.choice,
            parallel_tool_calls: set.parallel_tool_calls,
            expected: request.expected,
            tags,
        })
    }

    fn set(&self, tools: Vec<Tool>) -> ToolSet {
        ToolSet {
            tools,
            choice: self.choice.clone(),
            parallel_tool_calls: self.parallel_tool_calls,
        }
    }

    /// Whether the sets of both requests are equal, if they have the tools of their group.
    fn shares_set(&self, other: &Self) -> bool {
        self.group == other.group
            && self.choice == other.choice
            && self.parallel_tool_calls == other.parallel_tool_calls
    }

    /// The reference answer.
    fn reference(&self) -> String {
        json!({"ground_truth": self.expected}).to_string()
    }

    fn row(&self, constraint: Arc<Constraint>) -> Row {
        Row {
            constraint: Some(constraint),
            completion: Some(self.reference()),
            score: Some(Scorer::Calls),
            tags: self.tags.clone(),
            name: format!("{TOOLS_NAME}, {}", self.id),
            ..Row::unconstrained(Prompt::Messages(Arc::clone(&self.messages)))
        }
    }

    /// Whether the request makes no sense without this tool: an expected call, an earlier call or
    /// the choice names it.
    fn needs(&self, tool: &str) -> bool {
        let is_expected = self.expected.iter().any(|call| call.contains_key(tool));
        let is_chosen = match &self.choice {
            ToolChoice::Named(name) => name == tool,
            ToolChoice::Allowed { names, .. } => names.iter().any(|name| name == tool),
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::None => false,
        };
        let earlier_calls = self
            .messages
            .iter()
            .filter_map(|message| message.other.get("tool_calls")?.as_array())
            .flatten();
        let mut earlier_names = earlier_calls.map(|call| &call["function"]["name"]);
        is_expected || is_chosen || earlier_names.any(|name| name == tool)
    }
}

/// The layout of the file.
#[derive(Deserialize)]
struct File {
    groups: Vec<FileGroup>,
    requests: Vec<FileRequest>,
}

#[derive(Deserialize)]
struct FileGroup {
    name: String,
    /// Content of the first message of the group's requests.
    system: String,
    tools: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRequest {
    id: String,
    group: String,
    tool_choice: Value,
    parallel_tool_calls: Option<bool>,
    /// Content of the user's message.
    prompt: Option<String>,
    /// Messages in place of a prompt.
    #[serde(default)]
    messages: Vec<Message>,
    expected: Vec<Map<String, Value>>,
    tags: Vec<String>,
}

impl FileGroup {
    /// The members of a request with the tools of the group.
    fn members(&self, request: Option<&FileRequest>) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("tools".to_owned(), self.tools.clone().into());
        if let Some(request) = request {
            members.insert("tool_choice".to_owned(), request.tool_choice.clone());
            members.insert(
                "parallel_tool_calls".to_owned(),
                request.parallel_tool_calls.into(),
            );
        }
        members
    }
}

fn unreadable(error: &serde_json::Error) -> Error {
    Error::internal(format!("{TOOLS_NAME} is not readable: {error}"))
}

/// All tools that requests can offer.
struct Catalog<'a> {
    shipped: &'a Shipped,
    /// Empty if the shipped tools suffice.
    generated: Vec<Tool>,
    tools_per_request: Option<usize>,
    seed: u64,
}

impl<'a> Catalog<'a> {
    fn new(shipped: &'a Shipped, tools_per_request: Option<usize>, seed: u64) -> Self {
        let families: Vec<&Tool> = shipped
            .groups
            .iter()
            .flat_map(|group| &group.tools)
            .collect();
        let generated = match tools_per_request {
            Some(count) if count > families.len() => {
                let mut random = PythonRandom::from_u128(STREAM | u128::from(seed));
                variants::generate(&families, &mut random)
            }
            _ => Vec::new(),
        };
        Self {
            shipped,
            generated,
            tools_per_request,
            seed,
        }
    }

    /// The number of passes with different tools.
    fn max_passes(&self) -> usize {
        let requests = &self.shipped.requests;
        let needs_own_set = |index: &usize| {
            let request = &requests[*index];
            let mut earlier = requests[..*index].iter();
            self.few_tools_for(request).is_some() || !earlier.any(|other| other.shares_set(request))
        };
        let sets = (0..requests.len()).filter(needs_own_set).count();
        let tools_of_largest = self
            .shipped
            .groups
            .iter()
            .map(|group| group.tools.len())
            .max();
        let tools = self.tools_per_request.or(tools_of_largest).unwrap_or(1);
        (MAX_TOOLS_IN_MEMORY / (sets * tools).max(1)).max(1)
    }

    /// The number of tools, if the group of the request has more.
    fn few_tools_for(&self, request: &Request) -> Option<usize> {
        let own_tools = self.shipped.groups[request.group].tools.len();
        self.tools_per_request.filter(|count| *count < own_tools)
    }

    /// A random stream for one list of a pass.
    fn random(&self, pass: usize, list: usize) -> PythonRandom {
        let list = (pass * MAX_LISTS + list + 1) as u128;
        PythonRandom::from_u128(list << 96 | STREAM | u128::from(self.seed))
    }

    /// The tools for the requests of a group: its own, then others.
    fn tools_for_group(&self, group: usize, pass: usize) -> Vec<Tool> {
        let mut random = self.random(pass, group);
        let mut tools = self.shipped.groups[group].tools.clone();
        let missing = self
            .tools_per_request
            .unwrap_or(0)
            .saturating_sub(tools.len());
        let groups = self.shipped.groups.iter().enumerate();
        let of_others: Vec<&Tool> = groups
            .filter(|(index, _)| *index != group)
            .flat_map(|(_, other)| &other.tools)
            .collect();
        let shipped = missing.min(of_others.len());
        let drawn = random.sample(of_others.len(), shipped);
        tools.extend(drawn.into_iter().map(|index| of_others[index].clone()));
        let generated = (missing - shipped).min(self.generated.len());
        let drawn = random.sample(self.generated.len(), generated);
        tools.extend(drawn.into_iter().map(|index| self.generated[index].clone()));
        random.shuffle(&mut tools);
        tools
    }

    /// The needed tools of a request and others of its group, if there are fewer than the group
    /// has.
    fn tools_for_request(&self, request: &Request, count: usize, pass: usize) -> Vec<Tool> {
        let requests = &self.shipped.requests;
        let index = requests.iter().position(|other| other.id == request.id);
        let mut random = self.random(pass, self.shipped.groups.len() + index.unwrap_or_default());
        let mut tools = self.shipped.groups[request.group].tools.clone();
        random.shuffle(&mut tools);
        tools.sort_by_key(|tool| !request.needs(&tool.name));
        let needed = tools
            .iter()
            .filter(|tool| request.needs(&tool.name))
            .count();
        tools.truncate(count.max(needed));
        random.shuffle(&mut tools);
        tools
    }
}

/// More than the groups and requests together.
const MAX_LISTS: usize = 1000;

/// The constraints of one pass. Requests with equal ones share them.
struct PassConstraints<'a> {
    catalog: &'a Catalog<'a>,
    pass: usize,
    tools_by_group: Vec<Vec<Tool>>,
    shared: Vec<(&'a Request, Arc<Constraint>)>,
}

impl<'a> PassConstraints<'a> {
    fn new(catalog: &'a Catalog<'a>, pass: usize) -> Self {
        let groups = 0..catalog.shipped.groups.len();
        Self {
            catalog,
            pass,
            tools_by_group: groups
                .map(|group| catalog.tools_for_group(group, pass))
                .collect(),
            shared: Vec::new(),
        }
    }

    fn constraint_for(&mut self, request: &'a Request) -> Arc<Constraint> {
        let constraint = |tools| Arc::new(Constraint::Tools(Arc::new(request.set(tools))));
        if let Some(count) = self.catalog.few_tools_for(request) {
            return constraint(self.catalog.tools_for_request(request, count, self.pass));
        }
        let mut shared = self.shared.iter();
        if let Some((_, constraint)) = shared.find(|(other, _)| other.shares_set(request)) {
            return Arc::clone(constraint);
        }
        let constraint = constraint(self.tools_by_group[request.group].clone());
        self.shared.push((request, Arc::clone(&constraint)));
        constraint
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::dataset::tests::{plan, rows};
    use crate::dataset::{DatasetName, Source};
    use crate::tokenizer::Tokenizer;
    use sobench_core::constraint::sha256_hex;
    use sobench_core::tools::ToolInput;
    use sobench_judge::function_calls;

    fn read(tools_per_request: Option<usize>, num_prompts: usize, seed: u64) -> Vec<Row> {
        let options = ToolsPlan {
            tools_per_request,
            order: Order::AsStored,
            ..ToolsPlan::default()
        };
        read_plan(options, num_prompts, seed)
    }

    fn read_plan(options: ToolsPlan, num_prompts: usize, seed: u64) -> Vec<Row> {
        let plan = DatasetPlan {
            source: Source::Tools(options),
            num_prompts,
            seed,
            ..plan(DatasetName::Tools)
        };
        rows(&plan, &Tokenizer::embedded()).unwrap().rows
    }

    fn set(row: &Row) -> &ToolSet {
        row.constraint.as_deref().unwrap().tools().unwrap()
    }

    fn names(row: &Row) -> Vec<&str> {
        set(row)
            .tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect()
    }

    fn parameters(tool: &Tool) -> &Value {
        match &tool.input {
            ToolInput::Function {
                parameters: Some(parameters),
                ..
            } => parameters,
            other => panic!("expected parameters: {other:?}"),
        }
    }

    fn validator(tool: &Tool) -> jsonschema::Validator {
        jsonschema::options()
            .should_validate_formats(true)
            .build(parameters(tool))
            .unwrap_or_else(|error| panic!("{}: {error}", tool.name))
    }

    /// The first allowed values of an expected call. An empty string first means no member.
    fn first_arguments(allowed: &Map<String, Value>) -> Value {
        let members = allowed.iter().filter_map(|(name, values)| {
            let first = values.as_array().unwrap().first().unwrap();
            (first != "").then(|| (name.clone(), first_value(first)))
        });
        Value::Object(members.collect())
    }

    fn first_value(value: &Value) -> Value {
        match value {
            Value::Object(members) => first_arguments(members),
            Value::Array(items) => items.iter().map(first_value).collect(),
            other => other.clone(),
        }
    }

    /// Published results name `tools-1`. A change of its requests needs a new version.
    #[test]
    fn requests_of_a_version_do_not_change() {
        assert_eq!(
            sha256_hex(FILE.as_bytes()),
            "7b37e9a057c48a77352bfe2ff222771e212bcb0e6b01c3799720b4c7a34ebe89"
        );
        let file: Value = serde_json::from_str(FILE).unwrap();
        assert_eq!(file["version"], TOOLS_NAME);
    }

    #[test]
    fn file_has_the_documented_counts() {
        let shipped = Shipped::read().unwrap();
        let tools: Vec<&Tool> = shipped
            .groups
            .iter()
            .flat_map(|group| &group.tools)
            .collect();
        let ids: BTreeSet<&str> = shipped.requests.iter().map(|row| row.id.as_str()).collect();
        let names: BTreeSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(
            (shipped.groups.len(), tools.len(), names.len(), ids.len()),
            (6, 40, 40, 120)
        );
        let strict = tools.iter().filter(|tool| tool.is_strict()).count();
        assert_eq!(strict, 34);
        let count = |group: &str| {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for tag in shipped.requests.iter().flat_map(|request| &request.tags) {
                if let Some(value) = tag.strip_prefix(group) {
                    *counts.entry(value).or_default() += 1;
                }
            }
            counts.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(
            count("calls:"),
            [
                ("none", 17),
                ("one", 68),
                ("several", 20),
                ("unavailable", 15)
            ]
        );
        assert_eq!(count("step:"), [("first", 110), ("second", 10)]);
        assert_eq!(
            count("tool_choice:"),
            [
                ("allowed_tools", 9),
                ("auto", 92),
                ("named", 6),
                ("none", 5),
                ("required", 8)
            ]
        );
        assert_eq!(count("group:").len(), 6);
        assert!(count("language:").len() >= 6);
    }

    #[test]
    fn expected_calls_are_valid_under_the_schema_of_their_tool() {
        let shipped = Shipped::read().unwrap();
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for request in &shipped.requests {
            let mut calls = Vec::new();
            for (name, allowed) in request.expected.iter().flatten() {
                let tools = &shipped.groups[request.group].tools;
                let tool = tools.iter().find(|tool| tool.name == *name);
                let tool = tool.unwrap_or_else(|| panic!("{}: {name}", request.id));
                let arguments = first_arguments(allowed.as_object().unwrap());
                if let Err(error) = validator(tool).validate(&arguments) {
                    panic!("{}, {name}: {error}", request.id);
                }
                assert!(request.choice.allows(name), "{}: {name}", request.id);
                *uses.entry(tool.name.as_str()).or_default() += 1;
                calls.push(json!({"name": name, "arguments": arguments}));
            }
            let is_due = request.choice.requires_call();
            assert!(!is_due || !calls.is_empty(), "{}", request.id);
            let kind = match calls.len() {
                0 => ["calls:none", "calls:unavailable"],
                1 => ["calls:one"; 2],
                _ => ["calls:several"; 2],
            };
            assert!(kind.contains(&&*request.tags[1]), "{}", request.id);
            let reference = request.reference();
            assert_eq!(
                function_calls::matches_reference(
                    &reference,
                    None,
                    &Value::from(calls).to_string()
                ),
                Some(true),
                "{}",
                request.id
            );
        }
        for tool in shipped.groups.iter().flat_map(|group| &group.tools) {
            let count = uses.get(tool.name.as_str()).copied().unwrap_or_default();
            assert!(count >= 2, "{} is expected {count} times", tool.name);
        }
    }

    /// OpenAI's rules for strict functions: all members are required, and no others are allowed.
    #[test]
    fn strict_tools_have_strict_schemas() {
        fn check(schema: &Value, name: &str) {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                let members: Vec<&String> = properties.keys().collect();
                assert_eq!(schema["required"], json!(members), "{name}");
                assert_eq!(schema["additionalProperties"], false, "{name}");
            }
            for keyword in [
                "default",
                "oneOf",
                "allOf",
                "not",
                "minLength",
                "uniqueItems",
            ] {
                assert!(schema.get(keyword).is_none(), "{name}: {keyword}");
            }
            let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
            let named = |keyword: &str| schema.get(keyword).and_then(Value::as_object);
            let schemas = list("anyOf")
                .into_iter()
                .flatten()
                .chain(schema.get("items"));
            let named = ["properties", "$defs"].into_iter().filter_map(named);
            schemas
                .chain(named.flat_map(Map::values))
                .for_each(|schema| check(schema, name));
        }
        let shipped = Shipped::read().unwrap();
        let tools = shipped.groups.iter().flat_map(|group| &group.tools);
        for tool in tools.filter(|tool| tool.is_strict()) {
            check(parameters(tool), &tool.name);
        }
    }

    #[test]
    fn prompts_start_with_the_message_of_the_group() {
        for row in read(None, 120, 0) {
            let Prompt::Messages(messages) = &row.prompt else {
                panic!("expected a chat")
            };
            let roles: Vec<&str> = messages.iter().map(|message| &*message.role).collect();
            let expected: &[&str] = if row.tags.contains(&"step:second".to_owned()) {
                assert_eq!(
                    messages[2].other["tool_calls"][0]["id"],
                    messages[3].other["tool_call_id"]
                );
                &["system", "user", "assistant", "tool"]
            } else {
                &["system", "user"]
            };
            assert_eq!(roles, expected, "{}", row.name);
        }
    }

    #[test]
    fn default_tools_are_those_of_the_group() {
        let shipped = Shipped::read().unwrap();
        let rows = read(None, 240, 0);
        assert_eq!(rows.len(), 240);
        let sorted = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        for (row, request) in rows.iter().zip(shipped.requests.iter().cycle()) {
            let offered: BTreeSet<String> = sorted(names(row));
            let tools = &shipped.groups[request.group].tools;
            let own = sorted(tools.iter().map(|tool| tool.name.as_str()).collect());
            assert_eq!(offered, own, "{}", row.name);
            assert_eq!(set(row).choice, request.choice);
        }
        assert_eq!(names(&rows[0]), names(&rows[1]), "one order in a pass");
        assert_ne!(
            names(&rows[0]),
            names(&rows[120]),
            "another order in the next"
        );
        assert!(Arc::ptr_eq(
            rows[0].constraint.as_ref().unwrap(),
            rows[2].constraint.as_ref().unwrap()
        ));
    }

    #[test]
    fn few_tools_are_the_needed_ones_and_others_of_the_group() {
        let shipped = Shipped::read().unwrap();
        for (count, passes) in [(1, 2), (3, 2)] {
            let rows = read(Some(count), passes * 120, 0);
            for (row, request) in rows.iter().zip(shipped.requests.iter().cycle()) {
                let tools = names(row);
                let expected: BTreeSet<&String> =
                    request.expected.iter().flat_map(Map::keys).collect();
                assert!(expected.iter().all(|name| tools.contains(&name.as_str())));
                assert!(
                    tools.len() >= count && tools.len() <= count.max(3),
                    "{}",
                    row.name
                );
            }
        }
    }

    #[test]
    fn many_tools_are_filled_with_other_groups_and_then_with_variants() {
        let shipped = Shipped::read().unwrap();
        let is_shipped = |name: &str| {
            let mut tools = shipped.groups.iter().flat_map(|group| &group.tools);
            tools.any(|tool| tool.name == name)
        };
        for (count, shipped_count) in [(20, 20), (40, 40), (41, 40), (500, 40)] {
            let rows = read(Some(count), 121, 7);
            for row in rows.iter().step_by(20) {
                let names = names(row);
                let distinct: BTreeSet<&&str> = names.iter().collect();
                let of_file = names.iter().filter(|name| is_shipped(name)).count();
                assert_eq!(
                    (distinct.len(), of_file),
                    (count, shipped_count),
                    "{}",
                    row.name
                );
            }
            assert_ne!(names(&rows[0]), names(&rows[120]), "{count}");
            assert_eq!(rows[..5], read(Some(count), 5, 7), "the seed decides");
            assert_ne!(rows[0], read(Some(count), 1, 8)[0]);
        }
    }

    #[test]
    fn drawn_tools_are_distinct_and_the_shipped_ones_come_first() {
        let shipped = Shipped::read().unwrap();
        let is_shipped = |tool: &&Tool| {
            let mut tools = shipped.groups.iter().flat_map(|group| &group.tools);
            tools.any(|other| other == *tool)
        };
        for (count, shipped_count) in [(1, 1), (10, 10), (100, 40), (500, 40)] {
            let tools = draw_tools(count, 3).unwrap();
            let distinct: BTreeSet<&String> = tools.iter().map(|tool| &tool.name).collect();
            assert_eq!((distinct.len(), tools.len()), (count, count));
            assert_eq!(tools.iter().filter(is_shipped).count(), shipped_count);
            assert_eq!(tools, draw_tools(count, 3).unwrap(), "the seed decides");
            assert_ne!(tools, draw_tools(count, 4).unwrap());
        }
        assert_eq!(
            draw_tools(501, 0).unwrap_err().what,
            "invalid number of tools: 501"
        );
    }

    #[test]
    fn variants_have_the_structure_of_shipped_tools_and_other_words() {
        /// The schema without words.
        fn structure(schema: &Value) -> Value {
            match schema {
                Value::Object(members) => {
                    let structures = members.iter().map(|(keyword, value)| match value {
                        Value::Object(named) if keyword == "properties" => {
                            (keyword.clone(), named.values().map(structure).collect())
                        }
                        Value::Array(list) if matches!(&**keyword, "enum" | "required") => {
                            (keyword.clone(), list.len().into())
                        }
                        Value::String(_) if matches!(&**keyword, "description" | "default") => {
                            (keyword.clone(), Value::Null)
                        }
                        value => (keyword.clone(), structure(value)),
                    });
                    Value::Object(structures.collect())
                }
                Value::Array(items) => items.iter().map(structure).collect(),
                other => other.clone(),
            }
        }
        let shipped = Shipped::read().unwrap();
        let families: Vec<&Tool> = shipped
            .groups
            .iter()
            .flat_map(|group| &group.tools)
            .collect();
        let generate = |seed| variants::generate(&families, &mut PythonRandom::new(seed));
        let generated = generate(1);
        let distinct: BTreeSet<&String> = generated.iter().map(|tool| &tool.name).collect();
        assert_eq!((distinct.len(), generated.len()), (800, 800));
        for tool in &generated {
            let same: Vec<&&Tool> = families
                .iter()
                .filter(|family| structure(parameters(family)) == structure(parameters(tool)))
                .collect();
            assert!(!same.is_empty(), "{}", tool.name);
            assert!(same.iter().all(|family| {
                family.name != tool.name && parameters(family) != parameters(tool)
            }));
            validator(tool);
            let text = parameters(tool).to_string();
            assert!(
                !text.contains("customer") && !text.contains("event"),
                "{text}"
            );
        }
        assert_eq!(generated, generate(1));
        assert_ne!(parameters(&generated[0]), parameters(&generate(2)[0]));
    }

    #[test]
    fn shortfall_and_limits() {
        let once = ToolsPlan {
            shortfall: Shortfall::FewerRequests,
            ..ToolsPlan::default()
        };
        assert_eq!(read_plan(once, 300, 0).len(), 120);
        for (tools_per_request, passes) in [(None, 204), (Some(3), 138), (Some(500), 2)] {
            let shipped = Shipped::read().unwrap();
            let catalog = Catalog::new(&shipped, tools_per_request, 0);
            assert_eq!(catalog.max_passes(), passes);
        }
        assert_eq!(read(Some(500), 1_000_000, 0).len(), 240);
        for count in [0, 501] {
            let flags = DatasetArgs {
                tools: ToolsFlags {
                    tools_per_request: vec![count],
                },
                ..DatasetArgs::default()
            };
            let error = ToolsPlan::new(&flags).unwrap_err();
            assert_eq!(error.what, format!("--tools-per-request is {count}"));
        }
    }
}
