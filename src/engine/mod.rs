//! Constrained-decoding libraries behind one trait, one library a file. Knows tokens and masks, neither HTTP nor models.
