//! An index of the rules that a request may match, so that not every rule is tried.
//!
//! A rule with paths is listed under the literal segments that each of its patterns begins with, up to four of
//! them. A rule without paths and with networks is listed under each of these. A request looks up the prefixes
//! of its path, in each of its readings, and those of its client's address, and leaves out the rules for other
//! methods. All other rules are candidates of every request.
//!
//! The lists are found by hashes. If two keys have one hash, the request has more candidates than it needs. So
//! the candidates are a superset of the rules that match, in the order of the file; each is then tried. A
//! property in the tests compares the outcome with that of trying all rules.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;

use crate::matcher::{Matcher, Parts, SplitRequest, masked};
use crate::request::RequestView;
use crate::request::path;
use crate::rule::RULES_MAX;

/// The most segments by which a path is looked up: its first ones.
const DEPTH_MAX: usize = 4;
/// The most methods that the index distinguishes. If the rules name more, all rules are candidates for a method
/// beyond these.
const METHODS_MAX: usize = 16;
const WORDS: usize = RULES_MAX.div_ceil(64);

/// A set of rules by their indexes. It is iterated in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct RuleSet {
    words: [u64; WORDS],
    /// Words in use.
    used: usize,
    /// The word of the next index.
    at: usize,
}

impl RuleSet {
    fn of_words(words: &[u64]) -> Self {
        let mut set = Self { words: [0; WORDS], used: words.len(), at: 0 };
        set.words[..words.len()].copy_from_slice(words);
        set
    }

    /// All of `count` rules.
    pub(super) fn all(count: usize) -> Self {
        let mut set = Self { words: [0; WORDS], used: count.div_ceil(64), at: 0 };
        for (word, first) in set.words.iter_mut().zip((0..count).step_by(64)) {
            let bits = (count - first).min(64);
            *word = u64::MAX >> (64 - bits);
        }
        set
    }

    fn add(&mut self, list: &[u16]) {
        for rule in list {
            self.words[usize::from(rule / 64)] |= 1 << (rule % 64);
        }
    }

    fn keep(&mut self, words: &[u64]) {
        for (word, kept) in self.words.iter_mut().zip(words) {
            *word &= kept;
        }
    }
}

impl Iterator for RuleSet {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.at < self.used {
            let word = &mut self.words[self.at];
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(self.at * 64 + bit);
            }
            self.at += 1;
        }
        None
    }
}

/// The lists of a set of rules.
#[derive(Debug)]
pub(super) struct RuleIndex {
    count: usize,
    /// Rules that may match with any path and any client.
    everywhere: Vec<u64>,
    lists: HashMap<u64, Vec<u16>, BuildHasherDefault<Prehashed>>,
    /// The longest path prefix that has a list.
    depth: usize,
    /// The lengths of the networks that have a list, of IPv4 and IPv6.
    lengths: [Vec<u8>; 2],
    /// The rules for each method that a rule names.
    methods: Vec<(String, Vec<u64>)>,
    /// The rules for all other methods.
    other_methods: Vec<u64>,
}

impl RuleIndex {
    pub(super) fn new<'m>(matchers: impl Iterator<Item = &'m Matcher> + Clone) -> Self {
        let count = matchers.clone().count();
        let mut index = Self {
            count,
            everywhere: vec![0; count.div_ceil(64)],
            lists: HashMap::default(),
            depth: 0,
            lengths: [Vec::new(), Vec::new()],
            methods: Vec::new(),
            other_methods: Vec::new(),
        };
        for (rule, matcher) in (0..).zip(matchers.clone()) {
            index.list(rule, matcher);
        }
        index.lengths.iter_mut().for_each(|lengths| lengths.sort_unstable());
        index.add_methods(matchers);
        index
    }

    fn list(&mut self, rule: u16, matcher: &Matcher) {
        let its = &matcher.conditions;
        let prefixes: Vec<Vec<&[u8]>> =
            its.paths.iter().map(|path| path.literal_prefix().take(DEPTH_MAX).collect()).collect();
        let is_listed = match (prefixes.is_empty(), its.networks.is_empty()) {
            (false, _) => prefixes.iter().all(|prefix| !prefix.is_empty()),
            (true, no_networks) => !no_networks,
        };
        if !is_listed {
            self.everywhere[usize::from(rule / 64)] |= 1 << (rule % 64);
            return;
        }
        for prefix in &prefixes {
            self.depth = self.depth.max(prefix.len());
            let hash = prefix.iter().fold(PATHS, |hash, literal| mixed(hash, hash_of(literal)));
            self.add(hash, rule);
        }
        if prefixes.is_empty() {
            for (address, bits) in its.networks.iter() {
                let lengths = &mut self.lengths[usize::from(address.is_ipv6())];
                if !lengths.contains(&bits) {
                    lengths.push(bits);
                }
                self.add(hash_of_network(address, bits), rule);
            }
        }
    }

    fn add(&mut self, hash: u64, rule: u16) {
        let list = self.lists.entry(hash).or_default();
        if list.last() != Some(&rule) {
            list.push(rule);
        }
    }

    fn add_methods<'m>(&mut self, matchers: impl Iterator<Item = &'m Matcher> + Clone) {
        let named = matchers.clone().flat_map(|matcher| &matcher.conditions.methods);
        let mut names: Vec<&str> = named.map(String::as_str).collect();
        if names.contains(&"GET") {
            names.push("HEAD");
        }
        names.sort_unstable();
        names.dedup();
        let words = |allows: &dyn Fn(&Matcher) -> bool| {
            let mut words = vec![0; self.count.div_ceil(64)];
            for (rule, matcher) in matchers.clone().enumerate() {
                words[rule / 64] |= u64::from(allows(matcher)) << (rule % 64);
            }
            words
        };
        let has_none = |matcher: &Matcher| matcher.conditions.methods.is_empty();
        let has_all_names = names.len() <= METHODS_MAX;
        let for_method = |name: &str| words(&|its| has_none(its) || its.conditions.allows(name));
        let methods: Vec<_> = names
            .iter()
            .take(METHODS_MAX)
            .map(|name| ((*name).to_owned(), for_method(name)))
            .collect();
        let other_methods = words(&|its| has_none(its) || !has_all_names);
        (self.methods, self.other_methods) = (methods, other_methods);
    }

    /// The rules that may match a request, and others.
    pub(super) fn candidates(&self, parts: &SplitRequest<'_, impl RequestView>) -> RuleSet {
        let mut set = RuleSet::of_words(&self.everywhere);
        if self.depth > 0 && !self.add_by_path(parts, &mut set) {
            set = RuleSet::all(self.count);
        } else if let Some(client) = parts.client() {
            for bits in &self.lengths[usize::from(client.is_ipv6())] {
                self.add_list(hash_of_network(client, *bits), &mut set);
            }
        }
        let method = parts.request().method();
        let of_method = self.methods.iter().find(|(name, _)| name.eq_ignore_ascii_case(method));
        set.keep(of_method.map_or(&self.other_methods, |(_, words)| words));
        set
    }

    /// Adds the lists of the path's prefixes. Returns `false` if the path has too many readings.
    fn add_by_path(&self, parts: &SplitRequest<'_, impl RequestView>, set: &mut RuleSet) -> bool {
        let path = parts.split_path();
        path.visit(|segments| {
            let mut hash = PATHS;
            for segment in segments.iter().take(self.depth) {
                let its = match path.is_encoded() {
                    true => hash_of_bytes(path::decoded(segment)),
                    false => hash_of(segment.as_bytes()),
                };
                hash = mixed(hash, its);
                self.add_list(hash, set);
            }
        })
    }

    fn add_list(&self, hash: u64, set: &mut RuleSet) {
        if let Some(list) = self.lists.get(&hash) {
            set.add(list);
        }
    }
}

/// The hash of the empty path prefix. Those of longer ones are mixed from it.
const PATHS: u64 = 0x243f_6a88_85a3_08d3;
/// The value that the hashes of networks are mixed from.
const NETWORKS: u64 = 0x1319_8a2e_0370_7344;

/// Bit 5 of each byte, in which letters of both cases differ.
const CASE: u64 = 0x2020_2020_2020_2020;

fn mixed(hash: u64, word: u64) -> u64 {
    let product = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

/// The hash of a segment, the same in either case.
fn hash_of(segment: &[u8]) -> u64 {
    let (chunks, rest) = segment.as_chunks::<8>();
    let mut hash = 0;
    for chunk in chunks {
        hash = mixed(hash, u64::from_le_bytes(*chunk) | CASE);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mixed(mixed(hash, u64::from_le_bytes(last) | CASE), segment.len() as u64)
}

/// [`hash_of`] of bytes that are not in one piece.
fn hash_of_bytes(bytes: impl Iterator<Item = u8>) -> u64 {
    let (mut hash, mut word, mut len) = (0, 0, 0_u64);
    for byte in bytes {
        word |= u64::from(byte) << (len % 8 * 8);
        len += 1;
        if len.is_multiple_of(8) {
            hash = mixed(hash, word | CASE);
            word = 0;
        }
    }
    mixed(mixed(hash, word | CASE), len)
}

fn hash_of_network(address: IpAddr, bits: u8) -> u64 {
    let start = mixed(NETWORKS, u64::from(bits) | u64::from(address.is_ipv6()) << 8);
    match masked(address, bits) {
        IpAddr::V4(four) => mixed(start, u64::from(four.to_bits())),
        IpAddr::V6(six) => {
            let octets = six.octets();
            let words = octets.as_chunks::<8>().0.iter();
            words.fold(start, |hash, word| mixed(hash, u64::from_be_bytes(*word)))
        }
    }
}

/// The hasher of keys that are hashes.
#[derive(Debug, Default)]
struct Prehashed(u64);

impl Hasher for Prehashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are words");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
