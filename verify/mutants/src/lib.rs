//! Mutation tests, with all changes of a crate in one program.
//!
//! A mutation test changes one expression and runs the tests: a change that no test notices shows a test that
//! is missing. Building the crate for each change takes days. Here each place that can be changed becomes
//! a switch (*mutant schemata*), so that the tests are built once:
//!
//! ```text
//! a + b    becomes    (match crate::mutant::at(70, 2) { 1 => (a) - (b), 2 => (a) * (b), _ => a + b })
//! ```
//!
//! 1. [`tree`] copies the repository, and finds the crate's files as the compiler does.
//! 2. [`find`] finds the places in a file. [`render`] writes the file with its switches.
//! 3. [`compile`] has the compiler check the copy. A change that does not compile is taken out, until all do.
//! 4. [`record`] runs each test alone and notes which places it reaches, and how long it takes.
//! 5. [`trial`] switches on one change after the other, and runs the tests that reach it until one fails.
//! 6. [`outcomes`] keeps what was seen, so that a run can be stopped and continued. [`report`] sums it up.
//!
//! A switch in a `const fn` reads a variable where the function runs, and is off where the compiler evaluates
//! it. That takes an intrinsic of the compiler (`const_eval_select`), which the copy, and only the copy, is
//! allowed to use.

pub mod compile;
pub mod config;
pub mod find;
pub mod known;
pub mod mutant;
pub mod outcomes;
pub mod process;
pub mod record;
pub mod render;
pub mod report;
pub mod tree;
pub mod trial;
pub mod workers;
