//! The visitor of each kind of syntax.

use std::ops::Range;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Item, Lit, Pat, Signature, Stmt, Token, UnOp};

use super::{Finder, swaps};
use crate::mutant::{LeftOut, Shape};

fn bytes(of: &impl Spanned) -> Range<usize> {
    of.span().byte_range()
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

fn attributes(expr: &Expr) -> &[Attribute] {
    match expr {
        Expr::Assign(it) => &it.attrs,
        Expr::Block(it) => &it.attrs,
        Expr::Call(it) => &it.attrs,
        Expr::If(it) => &it.attrs,
        Expr::Match(it) => &it.attrs,
        Expr::MethodCall(it) => &it.attrs,
        Expr::Return(it) => &it.attrs,
        Expr::Unsafe(it) => &it.attrs,
        _ => &[],
    }
}

impl Finder<'_> {
    /// The value that a condition has wherever the tests run. `planted` is a mistake of the models, and
    /// false outside of them.
    fn constant(&self, expr: &Expr) -> Option<bool> {
        match expr {
            Expr::Paren(inner) => self.constant(&inner.expr),
            Expr::Unary(not) if matches!(not.op, UnOp::Not(_)) => Some(!self.constant(&not.expr)?),
            Expr::Macro(call) if call.mac.path.is_ident("cfg") => {
                Some(self.config.holds(&call.mac.parse_body().ok()?))
            }
            Expr::Call(call) => match &*call.func {
                Expr::Path(called) if called.path.is_ident("planted") => Some(false),
                _ => None,
            },
            Expr::Binary(both) => {
                let sides = [self.constant(&both.left), self.constant(&both.right)];
                let ends_it = match both.op {
                    BinOp::And(_) => false,
                    BinOp::Or(_) => true,
                    _ => return None,
                };
                match sides {
                    _ if sides.contains(&Some(ends_it)) => Some(ends_it),
                    [Some(_), Some(_)] => Some(!ends_it),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn configured(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        if self.config.allows(attributes) {
            visit(self);
        } else {
            self.leave_out(LeftOut::Configuration, visit);
        }
    }

    /// Visits a function: what it may return at once, then its body.
    fn function(&mut self, signature: &Signature, block: &Block, whole: Range<usize>) {
        let owner = self.owner.take();
        let name = match &owner {
            Some(owner) => format!("{owner}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        let before = std::mem::replace(&mut self.function, (name, whole));
        self.visit_signature(signature);
        self.entry(signature, block);
        self.visit_block(block);
        self.function = before;
        self.owner = owner;
    }

    fn entry(&mut self, signature: &Signature, block: &Block) {
        let Some(first) = block.stmts.first().map(bytes) else { return };
        let body = self.short(first.start..bytes(block).end - 1);
        let mut values = swaps::returned(&signature.output);
        if values.is_empty() {
            self.count(LeftOut::ReturnType, 1);
        }
        values.retain(|value| body.trim_end() != *value);
        let name = match &signature.output {
            syn::ReturnType::Default => self.function.0.clone(),
            output => format!("{} {}", self.function.0, self.short(bytes(output))),
        };
        let changes = values.into_iter().map(|value| {
            let text = if value == "()" { "return".to_owned() } else { format!("return {value}") };
            (format!("replace {name} with {value}"), text)
        });
        let changes = changes.collect();
        self.add_named(first.start..first.start, Shape::Entry, first.start, changes);
    }

    /// A condition or a guard. A comparison is negated by its operator.
    fn condition(&mut self, condition: &Expr, what: &str, values: &[&str]) {
        if has_let(condition) || self.constant(condition).is_some() {
            return;
        }
        let span = bytes(condition);
        let text = self.text(span.clone());
        let named = match what {
            "condition" => what.to_owned(),
            _ => format!("{what} {}", self.short(span.clone())),
        };
        let mut changes: Vec<_> = values
            .iter()
            .filter(|value| **value != text)
            .map(|value| (format!("replace {named} with {value}"), (*value).to_owned()))
            .collect();
        if !matches!(condition, Expr::Binary(_) | Expr::Unary(_) | Expr::Lit(_)) {
            changes.push((format!("negate {what}"), format!("!({text})")));
        }
        self.add(span.clone(), Shape::Value, span.start, changes);
    }

    fn number(&mut self, span: Range<usize>, number: &syn::LitInt) {
        let Ok(value) = number.base10_parse::<u128>() else { return };
        let others = [value.checked_add(1), value.checked_sub(1)];
        let text = self.short(span.clone());
        let changes = others.into_iter().flatten().map(|other| {
            (format!("replace {text} with {other}"), format!("{other}{}", number.suffix()))
        });
        let changes = changes.collect();
        self.add(span.clone(), Shape::Value, span.start, changes);
    }

    fn statement(&mut self, expr: &Expr, whole: Range<usize>) {
        let is_fence = |call: &syn::ExprCall| matches!(&*call.func, Expr::Path(it) if it.path.is_ident("fence"));
        let removable = match expr {
            Expr::Call(call) if is_fence(call) => return self.count(LeftOut::Fence, 1),
            Expr::Break(it) => it.expr.is_none(),
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) | Expr::Return(_) => true,
            Expr::Continue(_) | Expr::Await(_) | Expr::Try(_) => true,
            _ => false,
        };
        if removable {
            let start = whole.start;
            self.add(
                whole,
                Shape::Statement,
                start,
                vec![("delete statement".to_owned(), String::new())],
            );
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match self.constant(expr) {
            Some(_) => self.leave_out(LeftOut::Configuration, |it| visit::visit_expr(it, expr)),
            None => visit::visit_expr(self, expr),
        }
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let owner = self.owner.take();
        visit::visit_item(self, item);
        self.owner = owner;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.configured(&item.attrs, |it| it.function(&item.sig, &item.block, bytes(item)));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.configured(&item.attrs, |it| it.function(&item.sig, &item.block, bytes(item)));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let Some(block) = &item.default else { return };
        self.configured(&item.attrs, |it| it.function(&item.sig, block, bytes(item)));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.configured(&item.attrs, |it| visit::visit_item_mod(it, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.configured(&item.attrs, |it| {
            it.owner = Some(item.ident.to_string());
            visit::visit_item_trait(it, item);
        });
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.configured(&item.attrs, |it| {
            let of = it.short(bytes(&item.self_ty));
            it.owner = Some(match &item.trait_ {
                Some((_, path, _)) => format!("<impl {} for {of}>", it.short(bytes(path))),
                None => of,
            });
            for item in &item.items {
                it.visit_impl_item(item);
            }
        });
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.ident.is_some() {
            self.count(LeftOut::MacroDefinition, 1);
        } else {
            visit::visit_item_macro(self, item);
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let arguments = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        match arguments {
            Ok(arguments) => self.leave_out(LeftOut::Macro, |it| {
                arguments.iter().for_each(|argument| it.visit_expr(argument));
            }),
            Err(_) => self.count(LeftOut::Macro, 1),
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.leave_out(LeftOut::Constant, |it| visit::visit_item_const(it, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.leave_out(LeftOut::Constant, |it| visit::visit_item_static(it, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.leave_out(LeftOut::Constant, |it| visit::visit_impl_item_const(it, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.leave_out(LeftOut::Constant, |it| visit::visit_trait_item_const(it, item));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.leave_out(LeftOut::Constant, |it| visit::visit_variant(it, variant));
    }

    fn visit_expr_const(&mut self, expr: &'ast syn::ExprConst) {
        self.leave_out(LeftOut::Constant, |it| visit::visit_expr_const(it, expr));
    }

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
        self.leave_out(LeftOut::Constant, |it| it.visit_expr(&expr.len));
    }

    fn visit_type(&mut self, of: &'ast syn::Type) {
        self.leave_out(LeftOut::Type, |it| visit::visit_type(it, of));
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.leave_out(LeftOut::Type, |it| visit::visit_generic_argument(it, argument));
    }

    fn visit_generics(&mut self, generics: &'ast syn::Generics) {
        self.leave_out(LeftOut::Type, |it| visit::visit_generics(it, generics));
    }

    fn visit_pat(&mut self, pattern: &'ast Pat) {
        self.leave_out(LeftOut::Pattern, |it| visit::visit_pat(it, pattern));
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        self.configured(&local.attrs, |it| visit::visit_local(it, local));
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let Stmt::Expr(expr, semicolon) = statement else {
            return visit::visit_stmt(self, statement);
        };
        self.configured(attributes(expr), |it| {
            if semicolon.is_some() {
                it.statement(expr, bytes(statement));
            }
            it.visit_expr(expr);
        });
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        self.visit_expr(&expr.expr);
        let catches_all = |arm: &syn::Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        let last = expr.arms.iter().position(catches_all).unwrap_or(0);
        for (index, arm) in expr.arms.iter().enumerate() {
            self.configured(&arm.attrs, |it| {
                it.visit_pat(&arm.pat);
                if let Some((_, guard)) = &arm.guard {
                    it.condition(guard, "match guard", &["true", "false"]);
                    it.visit_expr(guard);
                } else if index < last {
                    let pattern = bytes(&arm.pat);
                    let what = format!("delete match arm {}", it.short(pattern.clone()));
                    it.add(
                        pattern.end..pattern.end,
                        Shape::Arm,
                        pattern.start,
                        vec![(what, String::new())],
                    );
                }
                it.visit_expr(&arm.body);
            });
        }
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.condition(&expr.cond, "condition", &["true", "false"]);
        self.visit_expr(&expr.cond);
        let constant = self.constant(&expr.cond);
        let mut branch = |is_dead, visit: &mut dyn FnMut(&mut Self)| match is_dead {
            true => self.leave_out(LeftOut::Configuration, |it| visit(it)),
            false => visit(self),
        };
        branch(constant == Some(false), &mut |it| it.visit_block(&expr.then_branch));
        if let Some((_, other)) = &expr.else_branch {
            branch(constant == Some(true), &mut |it| it.visit_expr(other));
        }
    }

    fn visit_expr_while(&mut self, expr: &'ast syn::ExprWhile) {
        self.condition(&expr.cond, "condition", &["false"]);
        visit::visit_expr_while(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        let (span, [left, op, right]) =
            (bytes(expr), [bytes(&expr.left), bytes(&expr.op), bytes(&expr.right)]);
        let (text, others) = swaps::operator(&expr.op);
        if matches!(expr.op, BinOp::And(_)) && (has_let(&expr.left) || has_let(&expr.right)) {
            self.count(LeftOut::LetChain, 1);
        } else if [&expr.left, &expr.right].iter().any(|side| self.constant(side).is_some()) {
            self.count(LeftOut::Configuration, others.len());
        } else {
            let [left, right] = [self.text(left), self.text(right)];
            let change = |other: &&str| {
                (format!("replace {text} with {other}"), format!("({left}) {other} ({right})"))
            };
            self.add(span, Shape::Value, op.start, others.iter().map(change).collect());
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        let span = bytes(expr);
        if let UnOp::Not(_) | UnOp::Neg(_) = expr.op {
            let what = format!("delete {}", self.text(bytes(&expr.op)));
            let inner = format!("({})", self.text(bytes(&expr.expr)));
            self.add(span.clone(), Shape::Value, span.start, vec![(what, inner)]);
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_method_call(&mut self, expr: &'ast syn::ExprMethodCall) {
        let (span, method) = (bytes(expr), bytes(&expr.method));
        let name = expr.method.to_string();
        let [before, after] =
            [self.text(span.start..method.start), self.text(method.end..span.end)];
        let change = |other: &&str| {
            (format!("replace {name} with {other}"), format!("{before}{other}{after}"))
        };
        let changes = swaps::method(&name).iter().map(change).collect();
        self.add(span, Shape::Value, method.start, changes);
        visit::visit_expr_method_call(self, expr);
    }

    fn visit_expr_lit(&mut self, expr: &'ast syn::ExprLit) {
        let span = bytes(expr);
        match &expr.lit {
            Lit::Int(number) => self.number(span, number),
            Lit::Bool(value) => {
                let text = (!value.value).to_string();
                let what = format!("replace {} with {text}", value.value);
                self.add(span.clone(), Shape::Value, span.start, vec![(what, text)]);
            }
            _ => {}
        }
    }
}
