//! Generated tools: the parameters of a shipped tool with other names and descriptions, for an
//! object that no shipped tool is about. They fill requests with many tools.

use std::collections::HashMap;

use serde_json::{Map, Value};

use sobench_core::tools::{Tool, ToolInput};
use sobench_pycompat::random::PythonRandom;

/// Verbs, as in names and in descriptions.
const VERBS: [(&str, &str); 20] = [
    ("annotate", "Annotates"),
    ("archive", "Archives"),
    ("calibrate", "Calibrates"),
    ("certify", "Certifies"),
    ("classify", "Classifies"),
    ("clean", "Cleans"),
    ("compare", "Compares"),
    ("duplicate", "Duplicates"),
    ("inspect", "Inspects"),
    ("inventory", "Inventories"),
    ("label", "Labels"),
    ("lend", "Lends"),
    ("measure", "Measures"),
    ("photograph", "Photographs"),
    ("register", "Registers"),
    ("relocate", "Relocates"),
    ("restore", "Restores"),
    ("retire", "Retires"),
    ("sample", "Samples"),
    ("weigh", "Weighs"),
];

/// Objects of museums, laboratories, gardens and theatres.
const OBJECTS: [&str; 40] = [
    "altar_painting",
    "amphora",
    "bat_box",
    "beehive",
    "bell_tower",
    "brew_kettle",
    "choir_score",
    "clay_kiln",
    "coral_tank",
    "costume",
    "film_reel",
    "fossil",
    "fresco",
    "glacier_core",
    "globe",
    "greenhouse_bed",
    "herbarium_sheet",
    "insect_trap",
    "lab_centrifuge",
    "lighthouse_lens",
    "loom",
    "manuscript",
    "meteorite",
    "microscope_slide",
    "mooring_buoy",
    "mosaic",
    "orchard_tree",
    "organ_pipe",
    "oyster_bed",
    "planetarium_dome",
    "printing_plate",
    "seed_lot",
    "stage_curtain",
    "steam_engine",
    "sundial",
    "tapestry",
    "telescope",
    "tide_gauge",
    "vineyard_row",
    "wind_chime",
];

/// Second sentences of descriptions.
const NOTES: [&str; 6] = [
    "Returns the changed record.",
    "Works on one record at a time.",
    "Needs the rights of a curator.",
    "The change is visible to all departments.",
    "Does not inform anybody.",
    "Takes effect at once.",
];

/// Words of the names of parameters and of the values of enums.
const QUALIFIERS: [&str; 20] = [
    "actual", "average", "early", "final", "first", "former", "inner", "internal", "last", "late",
    "lower", "main", "next", "outer", "planned", "primary", "public", "second", "spare", "upper",
];
const NOUNS: [&str; 30] = [
    "area", "batch", "catalog", "color", "curator", "depth", "donor", "edge", "epoch", "fabric",
    "frame", "grade", "hall", "layer", "lens", "length", "mark", "material", "origin", "owner",
    "phase", "pigment", "pressure", "section", "series", "shelf", "style", "texture", "width",
    "zone",
];

/// One tool for each verb and object, with the parameters of a tool of `families`, which
/// `random` draws.
pub(super) fn generate(families: &[&Tool], random: &mut PythonRandom) -> Vec<Tool> {
    let objects = |verb| OBJECTS.iter().map(move |object| (verb, object));
    let names = VERBS.iter().flat_map(objects);
    names
        .map(|((verb, verbs), object)| {
            let family = families[random.choice(families.len())];
            let object_words = object.replace('_', " ");
            let note = NOTES[random.choice(NOTES.len())];
            let mut words = Words::new(&object_words, random);
            Tool {
                name: format!("{verb}_{object}"),
                description: Some(format!("{verbs} the {object_words}. {note}")),
                input: match &family.input {
                    ToolInput::Function { parameters, strict } => ToolInput::Function {
                        parameters: parameters.as_ref().map(|schema| words.vary(schema)),
                        strict: *strict,
                    },
                    custom @ ToolInput::Custom { .. } => custom.clone(),
                },
            }
        })
        .collect()
}

/// Draws the words of one tool. No word occurs twice.
struct Words<'a> {
    object: &'a str,
    order: Vec<usize>,
}

impl<'a> Words<'a> {
    fn new(object: &'a str, random: &mut PythonRandom) -> Self {
        let mut order: Vec<usize> = (0..QUALIFIERS.len() * NOUNS.len()).collect();
        random.shuffle(&mut order);
        Self { object, order }
    }

    fn next(&mut self) -> String {
        let word = self.order.pop().unwrap_or_default();
        format!(
            "{}_{}",
            QUALIFIERS[word / NOUNS.len()],
            NOUNS[word % NOUNS.len()]
        )
    }

    /// The schema with other names of members, values of enums and descriptions.
    fn vary(&mut self, schema: &Value) -> Value {
        let Value::Object(members) = schema else {
            return schema.clone();
        };
        let names: HashMap<&String, String> = members
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::keys)
            .map(|name| (name, self.next()))
            .collect();
        let new_name = |name: &String| names.get(name).unwrap_or(name).clone();
        let mut values: HashMap<&str, String> = HashMap::new();
        let mut varied = Map::new();
        for (keyword, value) in members {
            let value = match (keyword.as_str(), value) {
                ("properties", Value::Object(schemas)) => schemas
                    .iter()
                    .map(|(name, schema)| (new_name(name), self.vary_member(schema, &names[name])))
                    .collect(),
                ("$defs", Value::Object(schemas)) => schemas
                    .iter()
                    .map(|(name, schema)| (name.clone(), self.vary(schema)))
                    .collect(),
                ("required", Value::Array(required)) => required
                    .iter()
                    .map(|name| match name {
                        Value::String(name) => new_name(name).into(),
                        other => other.clone(),
                    })
                    .collect(),
                ("enum", Value::Array(allowed)) => allowed
                    .iter()
                    .map(|value| match value {
                        Value::String(text) => values
                            .entry(text)
                            .or_insert_with(|| self.next())
                            .clone()
                            .into(),
                        other => other.clone(),
                    })
                    .collect(),
                ("anyOf", Value::Array(schemas)) => {
                    schemas.iter().map(|schema| self.vary(schema)).collect()
                }
                ("items" | "additionalProperties", schema) => self.vary(schema),
                ("description", _) => format!("A detail of the {}.", self.object).into(),
                (_, value) => value.clone(),
            };
            varied.insert(keyword.clone(), value);
        }
        // A default is one of the values of the enum, which stands before it.
        if let Some(Value::String(text)) = varied.get_mut("default")
            && let Some(value) = values.remove(text.as_str())
        {
            *text = value;
        }
        Value::Object(varied)
    }

    /// The schema of a member, whose description has its name.
    fn vary_member(&mut self, schema: &Value, name: &str) -> Value {
        let mut varied = self.vary(schema);
        if let Some(Value::String(text)) = varied.get_mut("description") {
            *text = format!("The {} of the {}.", name.replace('_', " "), self.object);
        }
        varied
    }
}
