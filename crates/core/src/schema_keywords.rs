//! Keywords of JSON Schema whose value is not one schema, for walks over the keywords of a schema.

/// Keywords whose value maps user-defined names to schemas.
pub const NAME_MAPS: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// Keywords whose value is literal data without keywords.
pub const LITERAL_KEYWORDS: [&str; 6] = [
    "const", "enum", "default", "examples", "example", "required",
];
