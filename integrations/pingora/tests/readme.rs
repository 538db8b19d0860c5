//! The lines that the README shows are those of an example, which is compiled.

/// The code without spaces, and without the comma that ends a list of arguments over several lines.
fn dense(code: &str) -> String {
    code.split_whitespace().collect::<String>().replace(",)", ")")
}

#[test]
fn the_readme_shows_lines_of_an_example() {
    let readme = include_str!("../README.md");
    let example = dense(include_str!("../examples/minimal.rs"));
    let (_, code) = readme.split_once("```rust,ignore\n").expect("a block");
    let (code, _) = code.split_once("```").expect("its end");
    let mut parts = 0;
    for part in code.split("\n\n") {
        let lines: Vec<&str> = part.lines().filter(|line| !line.starts_with("//")).collect();
        assert!(example.contains(&dense(&lines.concat())), "no example has this:\n{part}");
        parts += 1;
    }
    assert!(parts >= 4, "only {parts} parts were found");
}
