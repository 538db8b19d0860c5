//! The macro that expands the rows of the table in the [parent](super).

/// The enums of algorithms, of parameters and of oracles, the conversions between them, the names, and the macros
/// `each_machine!` and `each_view!`, which call the same method of whichever machine it is. (`$d` is a dollar sign,
/// for the macros within the macro.)
macro_rules! algorithms {
    ($d:tt $(#[$meta:meta])* $any:ident, $(#[$params_meta:meta])* $any_params:ident,
        $any_view:ident, $(#[$oracle_meta:meta])* $any_oracle:ident {
        $($(#[$doc:meta])* $name:ident($params:ty) $(: $marker:ident)?, $view:ident,
            $oracle:ident, $number:literal,
            $($text:literal $(= $value:expr)?),+;)*
    }) => {
        $(#[$meta])*
        pub enum $any {
            $($(#[$doc])* $name($name),)*
        }

        /// The names that parse, each with the algorithm as it is without options.
        const NAMED: &[(&str, $any)] = &[$($($(($text, $any::$name($value)),)?)+)*];

        /// The names, each with the number that snapshots have for it.
        #[cfg(test)]
        pub(crate) const NUMBERS: &[(&str, u64)] = &[$($(($text, $number),)+)*];

        /// The algorithms by their numbers.
        #[cfg(feature = "shared-memory")]
        pub(crate) static NUMBERED: &[NumberedAlgorithm] = &[$(NumberedAlgorithm {
            number: <$params as super::Numbered>::NUMBER,
            names: &[$($text),+],
            name_index: <$params as super::Numbered>::name_index,
            write_quota: <$params as super::Numbered>::write_quota,
        },)*];

        /// Evaluates an expression for the algorithm of each name, of its own type.
        #[cfg(all(test, feature = "std"))]
        macro_rules! each_named {
            ($d algorithm:ident => $d call:expr) => {
                $($($({
                    let $d algorithm = $value;
                    $d call;
                })?)+)*
            };
        }

        $(impl From<$name> for $any {
            fn from(algorithm: $name) -> Self {
                Self::$name(algorithm)
            }
        })*

        $($(
            #[cfg(feature = "std")]
            impl $marker for $name {}
        )?)*

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

        $(#[$params_meta])*
        pub enum $any_params {
            $($(#[$doc])* $name($params),)*
        }

        $(impl From<$params> for $any_params {
            #[inline]
            fn from(params: $params) -> Self {
                Self::$name(params)
            }
        })*

        /// Calls the same method of whichever machine it is.
        macro_rules! each_machine {
            ($d any:expr, $d each:ident => $d call:expr) => {
                match $d any {
                    $($any_params::$name($d each) => $d call,)*
                }
            };
        }

        /// The same with the view that the machine has read; for a view that another machine has
        /// read, `$other`.
        macro_rules! each_view {
            ($d any:expr, $d view:expr, $d each:ident, $d its:ident => $d call:expr,
                else $d other:expr) => {
                match ($d any, $d view) {
                    $(($any_params::$name($d each), $any_view::$view($d its)) => $d call,)*
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
        fn oracle_of(params: &$any_params) -> $any_oracle {
            match params {
                $($any_params::$name(params) => $any_oracle::$name(super::StateMachine::oracle(params)),)*
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
