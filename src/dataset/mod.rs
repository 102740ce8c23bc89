//! Names and files to cases. Knows nothing of servers, but for which form of prompt and grammar they take.
