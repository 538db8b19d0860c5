//! The macros that expand the rows of the tables in the [parent](super).

/// The enum of algorithms, a conversion from each, and the conversion to parameters.
macro_rules! algorithms {
    ($(#[$meta:meta])* $any:ident => $any_params:ident {
        $($(#[$doc:meta])* $name:ident,)*
    }) => {
        $(#[$meta])*
        pub enum $any {
            $($(#[$doc])* $name($name),)*
        }

        $(impl From<$name> for $any {
            fn from(algorithm: $name) -> Self {
                Self::$name(algorithm)
            }
        })*

        impl Sealed for $any {}

        impl Algorithm for $any {
            type Params = $any_params;

            fn params(&self, quota: &Quota, origin: u64) -> Result<$any_params, QuotaError> {
                match self {
                    $(Self::$name(algorithm) => algorithm.params(quota, origin).map(Into::into),)*
                }
            }

            fn compact_params(
                &self,
                quota: &Quota,
                origin: u64,
            ) -> Result<Option<$any_params>, QuotaError> {
                match self {
                    $(Self::$name(algorithm) => {
                        let params = algorithm.compact_params(quota, origin)?;
                        Ok(params.map(Into::into))
                    })*
                }
            }
        }
    };
}

/// The enums of parameters and of oracles, a conversion from each, and the macros `each_machine!`
/// and `each_view!`, which call the same method of whichever machine it is. (`$d` is a dollar sign,
/// for the macros within the macro.)
macro_rules! machines {
    ($d:tt $(#[$meta:meta])* $any:ident, $any_view:ident,
        $(#[$oracle_meta:meta])* $any_oracle:ident {
        $($(#[$doc:meta])* $name:ident($params:ty), $view:ident, $oracle:ident;)*
    }) => {
        $(#[$meta])*
        pub enum $any {
            $($(#[$doc])* $name($params),)*
        }

        $(impl From<$params> for $any {
            #[inline]
            fn from(params: $params) -> Self {
                Self::$name(params)
            }
        })*

        /// Calls the same method of whichever machine it is.
        macro_rules! each_machine {
            ($d any:expr, $d each:ident => $d call:expr) => {
                match $d any {
                    $($any::$name($d each) => $d call,)*
                }
            };
        }

        /// The same with the view that the machine has read; for a view that another machine has
        /// read, `$other`.
        macro_rules! each_view {
            ($d any:expr, $d view:expr, $d each:ident, $d its:ident => $d call:expr,
                else $d other:expr) => {
                match ($d any, $d view) {
                    $(($any::$name($d each), $any_view::$view($d its)) => $d call,)*
                    _ => $d other,
                }
            };
        }

        #[cfg(feature = "std")]
        $(#[$oracle_meta])*
        pub enum $any_oracle {
            $($(#[$doc])* $name(oracle::$oracle),)*
        }

        #[cfg(feature = "std")]
        fn oracle_of(params: &$any) -> $any_oracle {
            match params {
                $($any::$name(params) => $any_oracle::$name(super::StateMachine::oracle(params)),)*
            }
        }

        #[cfg(feature = "std")]
        impl Sealed for $any_oracle {}

        #[cfg(feature = "std")]
        impl oracle::Oracle for $any_oracle {
            fn decide(&mut self, now: Tick, n: u64) -> oracle::Verdict {
                match self {
                    $(Self::$name(oracle) => oracle.decide(now, n),)*
                }
            }
        }
    };
}
