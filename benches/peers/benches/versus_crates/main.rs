//! Compares tollgate with the limiters that a user could choose instead.
//!
//! `README.md` of this package says how each is configured. Options on the command line, after
//! `--`: `--rounds N`, `--only TEXT` (rows), `--case TEXT` (comparisons), `--full` (the long ones
//! too).

mod choice;
mod cold;
mod direct;
mod flood;
mod forgets;
mod grants;
mod in_flight;
mod keyed;
mod memory;
mod ours;
mod rows;
mod ten_million;

use tollgate_benches::report::heading;

use choice::Choice;

fn main() {
    let choice = Choice::from_args();
    if let Some(task) = &choice.options.child {
        return match task.split_once(':') {
            Some(("flood", task)) => flood::child(task),
            Some(("forgets", task)) => forgets::child(task),
            Some(("memory", task)) => memory::child(task),
            _ => panic!("no such task: {task}"),
        };
    }
    heading("versus crates: beside what one would take instead");
    direct::run(&choice);
    keyed::run(&choice);
    in_flight::run(&choice);
    ten_million::run(&choice);
    cold::run(&choice);
    flood::run(&choice);
    forgets::run(&choice);
    memory::run(&choice);
    grants::run(&choice);
}
