//! Reads Lark and EBNF/GBNF and decides membership. Pure: no clock, no network, no environment.
