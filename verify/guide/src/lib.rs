//! Compiles the pages of the guide, and compares other limiters with what they are translated to.

/// A page of the guide as documentation, whose code is compiled and run.
#[cfg(doctest)]
macro_rules! page {
    ($name:ident, $file:literal) => {
        #[doc = include_str!(concat!("../../../docs/guide/", $file))]
        struct $name;
    };
}

#[cfg(doctest)]
mod pages {
    page!(Algorithms, "algorithms.md");
    page!(BehindProxies, "behind-proxies.md");
    page!(Capacity, "capacity.md");
    page!(ComingFromBucket4j, "coming-from-bucket4j.md");
    page!(ComingFromEnvoy, "coming-from-envoy.md");
    page!(ComingFromGo, "coming-from-go.md");
    page!(ComingFromGovernor, "coming-from-governor.md");
    page!(ComingFromNginx, "coming-from-nginx.md");
    page!(GettingStarted, "getting-started.md");
    page!(Login, "login.md");
    page!(Operation, "operation.md");
    page!(SeveralLimits, "several-limits.md");
    page!(SeveralMachines, "several-machines.md");
    page!(SeveralProcesses, "several-processes.md");
    page!(Shadow, "shadow.md");
    page!(Speed, "speed.md");
    page!(Tokens, "tokens.md");
    page!(Waiting, "waiting.md");
}
