//! `plan`: a quota for each value of a header, a cookie or a parameter of the query.

use tollgate::{BuildError, OnFull, QuotaError};
use toml::de::{DeTable, DeValue};

use super::fields::{Reader, Value, quoted_list};
use super::limits::buildable_plans;
use crate::key::{FORMS, Form, Part, PartSettings};
use crate::request::named::{self, Named};
use crate::request::path::Spelling;
use crate::rule::{ALGORITHMS, Limiters, PlanChoice, RuleAlgorithm, RuleLimit};

/// Each request is compared with the name of each plan.
const PLANS_MAX: usize = 32;
const NEEDED: &str = "a table is needed, as in plan = { by = \"header:x-plan\", gold = \"500/s\", default = \"5/s\" }";
const BY_NEEDED: &str = "\"header:NAME\", \"cookie:NAME\" or \"query:NAME\"";

/// The choice, and the limits: the default last, the others in the order of the file.
pub(super) fn read<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    usual: Option<&'static RuleAlgorithm>,
    on_full: OnFull,
) -> Option<(PlanChoice, Vec<RuleLimit>)> {
    let DeValue::Table(table) = value.get_ref() else {
        reader.wrong_type(value, NEEDED);
        return None;
    };
    let by = by(reader, value, table);
    let by_plans = usual.filter(|usual| usual.can_plan());
    if let (Some(usual), None) = (usual, by_plans) {
        let can: Vec<_> =
            ALGORITHMS.iter().filter(|its| its.can_plan()).map(|known| known.name).collect();
        let (name, can) = (usual.name, quoted_list(&can));
        reader.error(value.span(), format!("\"{name}\" keeps one quota for all keys: write {can}"));
    }
    // The quotas are checked even if the algorithm is wrong.
    let algorithm = by_plans.unwrap_or(&ALGORITHMS[0]);
    let quotas = quotas(reader, value, table, by.as_ref(), algorithm)?;
    let limits: Vec<RuleLimit> = quotas.iter().map(|(limit, _)| limit.clone()).collect();
    by_plans?;
    if let Err((at, error)) = buildable_plans(&limits, on_full) {
        let (_, given) = &quotas[at];
        reader.error_in(given, unkept(algorithm, &error));
        return None;
    }
    Some((PlanChoice { by: by? }, limits))
}

/// The error of a plan that a limiter cannot have beside the fastest.
fn unkept(algorithm: &RuleAlgorithm, error: &BuildError) -> String {
    let name = algorithm.name;
    let BuildError::Quota(error) = error else { return error.to_string() };
    let apart = format!(
        "{name} cannot keep this beside the fastest plan: write a rule of its own for these keys"
    );
    match (error, algorithm.limiters) {
        (QuotaError::PlanTooLong, Limiters::Window(_)) => format!(
            "{name} keeps plans of one period: write this as so many in the period of the fastest"
        ),
        (QuotaError::PlanTooLong, Limiters::Gcra | Limiters::Other(_))
        | (QuotaError::PlanTooFast | QuotaError::PlanLimitTooLarge, _) => apart,
        (error, _) => format!("{name} cannot keep this: {error}"),
    }
}

fn by<'s>(reader: &mut Reader<'s>, plan: &Value<'s>, table: &DeTable<'s>) -> Option<Named> {
    let Some(value) = table.get("by") else {
        let message = "the plan is chosen by nothing: write, for example, by = \"header:x-plan\"";
        reader.error(plan.span(), message.to_owned());
        return None;
    };
    let text = reader.string(value, BY_NEEDED)?;
    let settings = PartSettings { ipv6_prefix: 128, spelling: Spelling::default() };
    let named = text.split_once(':').and_then(|(word, name)| {
        FORMS.iter().find_map(|form| match form {
            Form::Named(its) if its.word == word && (its.is_name)(name) => Some((its.part)(name)),
            Form::Word(its, build) if *its == word => Some(build(settings)),
            _ => None,
        })
    });
    let named = named.and_then(Part::into_named);
    if named.is_none() {
        reader.error_in(value, format!("a plan cannot be chosen by \"{text}\": write {BY_NEEDED}"));
    }
    named
}

/// The mistake in a plan that no request chooses, because nothing of this kind has its value.
fn never_chosen(by: &Named, plan: &str) -> Option<&'static str> {
    let (is_met, message) = match by {
        Named::Header(_) => (
            plan.trim_ascii() == plan,
            "no header has this value: write it without spaces around it",
        ),
        Named::Cookie(_) => (
            named::is_cookie_value(plan),
            "no cookie has this value: write it without \";\", and without quotes or spaces around it",
        ),
        Named::Query(_) => return None,
    };
    (!is_met).then_some(message)
}

/// The limit of each plan and its value in the file, the default last.
fn quotas<'s, 'v>(
    reader: &mut Reader<'s>,
    plan: &Value<'s>,
    table: &'v DeTable<'s>,
    by: Option<&Named>,
    algorithm: &'static RuleAlgorithm,
) -> Option<Vec<(RuleLimit, &'v Value<'s>)>> {
    let mut named: Vec<_> = table.iter().filter(|(name, _)| *name.get_ref() != "by").collect();
    named.sort_by_key(|(name, _)| (*name.get_ref() == "default", name.span().start));
    let has_default = table.contains_key("default");
    if !has_default {
        let message = "the plan has no default, for requests without one of its values: write, for example, \
                       default = \"5/s\"";
        reader.error(plan.span(), message.to_owned());
    } else if !(2..=PLANS_MAX + 1).contains(&named.len()) {
        let message = format!(
            "a plan has 1 to {PLANS_MAX} values beside the default; this one has {}",
            named.len() - 1
        );
        reader.error(plan.span(), message);
        return None;
    }
    let limits: Vec<_> = named
        .into_iter()
        .map(|(name, given)| {
            let text: &str = name.get_ref();
            let is_name =
                !text.is_empty() && text.len() <= 100 && !text.chars().any(char::is_control);
            if !is_name {
                let message = "the value of a plan has 1 to 100 bytes, and no control characters";
                reader.error(name.span(), message.to_owned());
            }
            let unmet = by.and_then(|by| never_chosen(by, text));
            if let Some(message) = unmet.filter(|_| is_name) {
                reader.error(name.span(), message.to_owned());
            }
            let quota = reader.quota(given)?;
            is_name.then(|| (RuleLimit { name: text.to_owned(), quota, algorithm }, given))
        })
        .collect();
    let limits: Option<Vec<_>> = limits.into_iter().collect();
    limits.filter(|_| has_default)
}
