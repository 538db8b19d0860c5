//! The options of `tollgate check`.

use std::net::IpAddr;

use clap::Args;

pub(super) const HELP: &str = "\
Exit code:
  0  the file is right
  1  something in it is wrong: all of it is told, with its lines
  2  the file cannot be read

Examples:
  tollgate check rules/example.toml
  tollgate check --explain 'POST /login%2f' --client 192.0.2.7 rules/example.toml";

/// `tollgate check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The rules
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// Says which rules apply to a request such as "POST /login%2f", and why
    #[arg(long, value_name = "REQUEST")]
    pub(crate) explain: Option<String>,

    /// A header of that request, such as "host: api.example.com"; several may be given
    #[arg(long = "header", value_name = "HEADER", requires = "explain")]
    pub(crate) headers: Vec<String>,

    /// The address of that request's client
    #[arg(long, value_name = "ADDRESS", requires = "explain")]
    pub(crate) client: Option<IpAddr>,
}
