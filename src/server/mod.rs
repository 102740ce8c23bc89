//! The embedded OpenAI-compatible server: routes, a synthetic model, a timetable.
