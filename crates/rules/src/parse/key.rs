//! `key`: the parts of a request by which a rule counts it.

use super::fields::{Reader, Value, quoted_list};
use crate::key::{FORMS, Form, Key, NamedForm, Part, PartSettings};

/// The most parts of a key.
const PARTS_MAX: usize = 16;

/// The forms of a part, as messages list them.
fn needed() -> String {
    let form = |form: &Form| match form {
        Form::Word(word, _) => (*word).to_owned(),
        Form::Named(NamedForm { word, .. }) => format!("{word}:NAME"),
    };
    let forms: Vec<String> = FORMS.iter().map(form).chain(["none".to_owned()]).collect();
    quoted_list(&forms.iter().map(String::as_str).collect::<Vec<_>>())
}

/// One part or a list of them; or `"none"` by itself.
pub(super) fn read<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    settings: PartSettings,
) -> Option<Key> {
    let words = reader.strings(value, &needed())?;
    if let [(_, "none")] = *words {
        return Some(Key { parts: Vec::new() });
    }
    if words.len() > PARTS_MAX {
        let message = format!("a key has 1 to {PARTS_MAX} parts; this one has {}", words.len());
        reader.error(value.span(), message);
        return None;
    }
    let mut parts: Vec<Option<Part>> = Vec::new();
    for (value, text) in words {
        let part = part(text, settings);
        let part = part.map_err(|message| reader.error_in(value, message)).ok();
        if part.is_some() && parts.contains(&part) {
            reader.error_in(value, "the key has this part already: leave it out".to_owned());
        }
        parts.push(part);
    }
    Some(Key { parts: parts.into_iter().collect::<Option<_>>()? })
}

fn part(text: &str, settings: PartSettings) -> Result<Part, String> {
    let (word, name) = match text.split_once(':') {
        Some((word, name)) => (word, Some(name)),
        None => (text, None),
    };
    for form in FORMS {
        match (form, name) {
            (Form::Word(its, build), None) if *its == word => return Ok(build(settings)),
            (Form::Named(its), name) if its.word == word => {
                let named = name.filter(|name| (its.is_name)(name)).map(its.part);
                let example = its.example;
                return named.ok_or_else(|| {
                    format!("the name of a {word} is needed, as in \"{word}:{example}\"")
                });
            }
            _ => {}
        }
    }
    Err(match text {
        "none" => "\"none\" is one bucket for all: write it alone, or leave it out".to_owned(),
        _ if text.contains('+') => {
            let parts: Vec<String> = text.split('+').map(|part| format!("{part:?}")).collect();
            format!("several parts are a list: write [{}]", parts.join(", "))
        }
        _ => format!("unknown key \"{text}\": write {}, or a list of them", needed()),
    })
}
