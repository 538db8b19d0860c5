//! A script on the server. Calls name it by its hash, and send it in full if the server does not
//! have it.

use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind};

/// A Lua script of this crate.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    hash: String,
}

macro_rules! script {
    ($name:literal) => {
        concat!(include_str!("lua/prelude.lua"), include_str!(concat!("lua/", $name)))
    };
}

impl Script {
    pub(crate) fn gcra() -> Self {
        Self::new(script!("gcra.lua"))
    }

    pub(crate) fn window() -> Self {
        Self::new(script!("window.lua"))
    }

    pub(crate) fn counter() -> Self {
        Self::new(script!("counter.lua"))
    }

    pub(crate) fn log() -> Self {
        Self::new(script!("log.lua"))
    }

    /// Counts the cells that keys use in fixed windows. This script and the next two have arguments of their
    /// own.
    pub(crate) fn batch() -> Self {
        Self::new(concat!(include_str!("lua/now.lua"), include_str!("lua/batch.lua")))
    }

    pub(crate) fn heartbeat() -> Self {
        Self::new(concat!(include_str!("lua/now.lua"), include_str!("lua/heartbeat.lua")))
    }

    pub(crate) fn leave() -> Self {
        Self::new(include_str!("lua/leave.lua"))
    }

    fn new(source: &'static str) -> Self {
        Self { source, hash: sha1_smol::Sha1::from(source).digest().to_string() }
    }

    /// The call by hash.
    pub(crate) fn by_hash(&self, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
        call("EVALSHA", &self.hash, keys, args)
    }

    /// The call that contains the whole script, after which the server has it. This takes one round
    /// trip; loading first takes two. In a cluster the call goes to the node that needs the script.
    pub(crate) fn in_full(&self, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
        call("EVAL", self.source, keys, args)
    }
}

fn call(name: &str, script: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
    let mut cmd = redis::cmd(name);
    cmd.arg(script).arg(keys.len()).arg(keys).arg(args);
    cmd
}

/// Whether the server does not have the script: it was flushed, or another server took over.
pub(crate) fn is_missing(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
