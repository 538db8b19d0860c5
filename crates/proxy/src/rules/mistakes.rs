//! The mistakes of a rules file, as the log shows them.

use tollgate_rules::ReloadError;

/// The number of mistakes of a file that are logged; `tollgate check` shows all.
const MISTAKES_LOGGED: usize = 5;

/// The first mistakes, one per line. The lines of the file are left out, since they may have the password of a store.
pub(super) fn first_mistakes(error: &ReloadError) -> String {
    let ReloadError::Rules(wrong) = error else { return error.to_string() };
    let (file, errors) = (wrong.file(), wrong.errors());
    let shown = errors.iter().take(MISTAKES_LOGGED);
    let mut text: Vec<String> = shown
        .map(|error| format!("{file}:{}:{}: {}", error.line(), error.column(), error.message()))
        .collect();
    text.push(match errors.len().saturating_sub(MISTAKES_LOGGED) + wrong.left_out() {
        0 => format!("`tollgate check {file}` shows the lines"),
        more => format!("and {more} more: `tollgate check {file}` shows them"),
    });
    text.join("\n")
}
