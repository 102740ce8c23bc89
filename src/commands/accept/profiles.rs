//! The requirements that are shipped.

/// The profiles by name: files of requirements.
pub const PROFILES: [(&str, &str); 5] = [
    ("vllm-release", include_str!("profiles/vllm-release.toml")),
    ("kimi-vendor", include_str!("profiles/kimi-vendor.toml")),
    ("minimax", include_str!("profiles/minimax.toml")),
    ("openrouter", include_str!("profiles/openrouter.toml")),
    ("ci-smoke", include_str!("profiles/ci-smoke.toml")),
];

/// The file of a profile.
pub fn profile(name: &str) -> Option<&'static str> {
    let found = PROFILES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}
