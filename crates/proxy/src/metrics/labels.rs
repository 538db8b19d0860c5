//! The labels of counters.

/// What the rules say of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    NoRule,
    Admitted,
    Denied,
    /// It is not known, and so denied: a store does not answer.
    Unavailable,
}

/// Who did not move for too long, so that a body or a tunnel was ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stall {
    /// The upstream, amid a response.
    Response,
    /// The client, amid a request whose response had begun.
    Upload,
    /// The client, which does not read.
    Reader,
    /// Both ends of an upgraded connection.
    Tunnel,
}

/// The reason why a response was cut off after its head had been sent to the client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It ended too early.
    Short,
    /// It was longer than it announced.
    Long,
    /// It was malformed, or the connection was reset.
    Broken,
}

/// The ways through a tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    ToUpstream,
    ToClient,
}

/// Why a request got no answer from the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// `CONNECT`, or the target `*`.
    NotPassedOn,
    /// The client's body broke off, or is malformed.
    ClientBody,
    /// The client stopped sending its body.
    ClientTimeout,
    /// The upstream does not accept connections.
    Connect,
    /// The upstream did not accept a connection in time.
    ConnectTimeout,
    /// The upstream speaks no TLS, or is not trusted.
    Tls,
    /// The upstream broke off, or did not answer with HTTP.
    Protocol,
    /// The upstream closed a connection that had served before, instead of answering.
    Closed,
    /// The upstream's answer states its length twice, in an unknown way, or wrongly.
    Framing,
    /// The upstream did not answer in time.
    ResponseTimeout,
    /// The request does not say clearly which host it asks for.
    Host,
}

impl Failure {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 11] = [
        Self::NotPassedOn,
        Self::ClientBody,
        Self::ClientTimeout,
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Protocol,
        Self::Closed,
        Self::Framing,
        Self::ResponseTimeout,
        Self::Host,
    ];

    /// The word in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NotPassedOn => "not_passed_on",
            Self::ClientBody => "client_body",
            Self::ClientTimeout => "client_timeout",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
            Self::Closed => "closed",
            Self::Framing => "framing",
            Self::ResponseTimeout => "response_timeout",
            Self::Host => "host",
        }
    }
}

/// Which task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Follows the rules file.
    Rules,
    /// Answers `/metrics` and the questions about health.
    Admin,
    /// Asks stores for a sign of life.
    Stores,
}

impl Task {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Rules, Self::Admin, Self::Stores];

    /// The word in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Admin => "admin",
            Self::Stores => "stores",
        }
    }
}
