//! The replacements of operators, methods and returned values.

use syn::{BinOp, GenericArgument, PathArguments, ReturnType, Type};

/// An operator's text, and those that take its place.
pub(super) fn operator(op: &BinOp) -> (&'static str, &'static [&'static str]) {
    match op {
        BinOp::Lt(_) => ("<", &["<=", ">="]),
        BinOp::Le(_) => ("<=", &["<", ">"]),
        BinOp::Gt(_) => (">", &[">=", "<="]),
        BinOp::Ge(_) => (">=", &[">", "<"]),
        BinOp::Eq(_) => ("==", &["!="]),
        BinOp::Ne(_) => ("!=", &["=="]),
        BinOp::And(_) => ("&&", &["||"]),
        BinOp::Or(_) => ("||", &["&&"]),
        BinOp::Add(_) => ("+", &["-", "*"]),
        BinOp::Sub(_) => ("-", &["+", "/"]),
        BinOp::Mul(_) => ("*", &["+", "/"]),
        BinOp::Div(_) => ("/", &["%", "*"]),
        BinOp::Rem(_) => ("%", &["/", "+"]),
        BinOp::BitAnd(_) => ("&", &["|", "^"]),
        BinOp::BitOr(_) => ("|", &["&", "^"]),
        BinOp::BitXor(_) => ("^", &["|", "&"]),
        BinOp::Shl(_) => ("<<", &[">>"]),
        BinOp::Shr(_) => (">>", &["<<"]),
        BinOp::AddAssign(_) => ("+=", &["-=", "*="]),
        BinOp::SubAssign(_) => ("-=", &["+=", "/="]),
        BinOp::MulAssign(_) => ("*=", &["+=", "/="]),
        BinOp::DivAssign(_) => ("/=", &["%=", "*="]),
        BinOp::RemAssign(_) => ("%=", &["/=", "+="]),
        BinOp::BitAndAssign(_) => ("&=", &["|=", "^="]),
        BinOp::BitOrAssign(_) => ("|=", &["&=", "^="]),
        BinOp::BitXorAssign(_) => ("^=", &["|=", "&="]),
        BinOp::ShlAssign(_) => ("<<=", &[">>="]),
        BinOp::ShrAssign(_) => (">>=", &["<<="]),
        _ => ("", &[]),
    }
}

/// Methods that take the place of one.
pub(super) fn method(name: &str) -> &'static [&'static str] {
    match name {
        "min" => &["max"],
        "max" => &["min"],
        "wrapping_add" => &["wrapping_sub", "saturating_add"],
        "wrapping_sub" => &["wrapping_add", "saturating_sub"],
        "wrapping_mul" => &["saturating_mul"],
        "saturating_add" => &["saturating_sub", "wrapping_add"],
        "saturating_sub" => &["saturating_add", "wrapping_sub"],
        "saturating_mul" => &["wrapping_mul"],
        "checked_add" => &["checked_sub"],
        "checked_sub" => &["checked_add"],
        "checked_mul" => &["checked_div"],
        "checked_div" => &["checked_mul"],
        "overflowing_add" => &["overflowing_sub"],
        "overflowing_sub" => &["overflowing_add"],
        "div_ceil" => &["wrapping_div"],
        "is_some" => &["is_none"],
        "is_none" => &["is_some"],
        "is_ok" => &["is_err"],
        "is_err" => &["is_ok"],
        "any" => &["all"],
        "all" => &["any"],
        "leading_zeros" => &["trailing_zeros"],
        "trailing_zeros" => &["leading_zeros"],
        _ => &[],
    }
}

/// Values that a function of this type may return instead. Empty if none is known.
pub(super) fn returned(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, of) => values(of),
    }
}

fn values(of: &Type) -> Vec<String> {
    let texts: &[&str] = match of {
        Type::Tuple(tuple) if tuple.elems.is_empty() => &["()"],
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => &["\"\""],
            _ => &[],
        },
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Vec::new() };
            match last.ident.to_string().as_str() {
                "bool" => &["true", "false"],
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => &["0", "1"],
                "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => &["0", "1", "-1"],
                "f32" | "f64" => &["0.0", "1.0"],
                "String" => &["String::new()"],
                "Vec" => &["Vec::new()"],
                "Duration" => &["core::time::Duration::ZERO"],
                "Option" => {
                    let some = first_argument(&last.arguments).map_or(Vec::new(), values);
                    let some = some.into_iter().map(|value| format!("Some({value})"));
                    return [String::from("None")].into_iter().chain(some).collect();
                }
                "Result" => {
                    let Some(first) = first_argument(&last.arguments) else {
                        return vec!["Ok(())".to_owned()];
                    };
                    return values(first).into_iter().map(|value| format!("Ok({value})")).collect();
                }
                _ => &[],
            }
        }
        _ => &[],
    };
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn first_argument(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(of) => Some(of),
        _ => None,
    })
}
