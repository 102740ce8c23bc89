//! Contracts: the JSON Schemas of files, made from the types that are written and read.

pub use schemars;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value};

/// The contract of a file that is written as `T`.
pub fn written<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut contract = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    let definitions = contract["$defs"].as_object().cloned().unwrap_or_default();
    close(&mut contract, &definitions, false);
    contract
}

/// The schema of a string with one of these names.
pub fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Schema {
    json_schema!({"type": "string", "enum": names.into_iter().collect::<Vec<_>>()})
}

/// The schema of an object with one value for each name. Names that may be missing have `false`.
pub fn members<'a>(names: impl IntoIterator<Item = (&'a str, bool)>, value: &Schema) -> Schema {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, is_required) in names {
        properties.insert(name.to_owned(), value.clone().to_value());
        required.extend(is_required.then_some(name));
    }
    json_schema!({"type": "object", "properties": properties, "required": required})
}

/// Refuses unknown members in every object that is not a map. An object that is `part` of another
/// stays open, since the other one lists all members.
fn close(schema: &mut Value, definitions: &Map<String, Value>, part: bool) {
    let Value::Object(members) = schema else {
        return;
    };
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text
            .replace("[`", "`")
            .replace("`]", "`")
            .replace('\n', " ");
    }
    members.retain(|key, _| !["default", "format"].contains(&&**key));
    if members.contains_key("properties") {
        include_reference(members, definitions);
    }
    let is_object = members.get("type").is_some_and(|kind| kind == "object");
    if is_object && !part && !members.contains_key("additionalProperties") {
        members.insert("unevaluatedProperties".to_owned(), false.into());
    }
    for (key, value) in members {
        let part = is_object && ["allOf", "anyOf", "oneOf"].contains(&&**key);
        let is_by_name = ["properties", "patternProperties", "$defs"].contains(&&**key);
        match value {
            Value::Array(items) => {
                items
                    .iter_mut()
                    .for_each(|item| close(item, definitions, part));
            }
            Value::Object(schemas) if is_by_name => {
                schemas
                    .values_mut()
                    .for_each(|schema| close(schema, definitions, false));
            }
            schema => close(schema, definitions, false),
        }
    }
}

/// Puts the members of a referenced object beside the object's own, which its `$ref` would refuse.
fn include_reference(members: &mut Map<String, Value>, definitions: &Map<String, Value>) {
    let Some(Value::String(reference)) = members.remove("$ref") else {
        return;
    };
    let name = reference.trim_start_matches("#/$defs/");
    let included = definitions[name].as_object().cloned().unwrap_or_default();
    for (key, value) in included {
        match (members.get_mut(&key), value) {
            (Some(Value::Object(own)), Value::Object(more)) => own.extend(more),
            (Some(Value::Array(own)), Value::Array(more)) => own.extend(more),
            (Some(_), _) => {}
            (None, value) => {
                members.insert(key, value);
            }
        }
    }
}

/// Declares objects of a file: structs with the value of each member, which their `new` takes from the
/// arguments.
#[macro_export]
macro_rules! json_struct {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident $(<$life:lifetime>)? = |$($arg:ident: $Arg:ty),*| $([
            $(let $pattern:pat = $init:expr;)*
        ])? {
            $($(#[$member_meta:meta])* $member:ident: $Type:ty = $value:expr,)*
        }
    )+) => {$(
        #[derive($crate::contract::schemars::JsonSchema, serde::Serialize)]
        $(#[$meta])*
        $vis struct $Name $(<$life>)? {
            $($(#[$member_meta])* $member: $Type,)*
        }

        impl $(<$life>)? $Name $(<$life>)? {
            $vis fn new($($arg: $Arg),*) -> Self {
                $($(let $pattern = $init;)*)?
                Self { $($member: $value,)* }
            }
        }
    )+};
}
