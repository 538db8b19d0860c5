//! The options of `tollgate check`.

use std::net::IpAddr;

use clap::Args;

pub(super) const HELP: &str = "\
Exit code:
  0  the file has no mistake
  1  the file has mistakes; each is listed with its line
  2  the file cannot be read

Examples:
  tollgate check rules/example.toml
  tollgate check --explain 'POST /login%2f' --client 192.0.2.7 rules/example.toml";

/// `tollgate check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The rules file
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// Explains which rules apply to a request such as "POST /login%2f"
    #[arg(long, value_name = "REQUEST")]
    pub(crate) explain: Option<String>,

    /// A header of that request, such as "host: api.example.com"; may be given several times
    #[arg(long = "header", value_name = "HEADER", requires = "explain")]
    pub(crate) headers: Vec<String>,

    /// The client address of that request
    #[arg(long, value_name = "ADDRESS", requires = "explain")]
    pub(crate) client: Option<IpAddr>,
}
