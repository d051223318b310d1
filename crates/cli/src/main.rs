//! `evenkeel`, the command.

fn main() {}
