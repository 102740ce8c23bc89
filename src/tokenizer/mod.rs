//! Token counts and chat templates. Knows neither datasets nor servers.
