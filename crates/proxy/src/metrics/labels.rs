//! The labels of counters.

/// The decision of the rules on a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    NoRule,
    Admitted,
    Denied,
    /// Denied because a store did not answer.
    Unavailable,
}

/// The side that made no progress for too long, so that a body or tunnel was ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stall {
    /// The upstream, inside a response.
    Response,
    /// The client, inside a request whose response had begun.
    Upload,
    /// The client, which reads nothing.
    Reader,
    /// Both ends of an upgraded connection.
    Tunnel,
}

/// Why a response was cut off after its head was sent to the client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It ended too early.
    Short,
    /// It was longer than announced.
    Long,
    /// It was malformed, or the connection was reset.
    Broken,
}

/// A direction through a tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    ToUpstream,
    ToClient,
}

/// Why a request has no response from the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The method is `CONNECT`, or the target is `*`.
    NotPassedOn,
    /// The request's body ended early, or is malformed.
    ClientBody,
    /// The client stopped sending the body.
    ClientTimeout,
    /// No connection could be opened: the upstream refuses it, its name is not found, or no open file is left.
    Connect,
    /// The upstream did not accept a connection in time.
    ConnectTimeout,
    /// The upstream does not speak TLS, or is not trusted.
    Tls,
    /// The upstream closed the connection inside a response, or sent something that is not HTTP.
    Protocol,
    /// The upstream closed a reused connection instead of answering.
    Closed,
    /// The response states its length twice, in an unknown way, or wrongly.
    Framing,
    /// The upstream did not answer in time.
    ResponseTimeout,
    /// The request does not state its host clearly.
    Host,
    /// The path would leave the base path of the upstream.
    AboveRoot,
    /// The request states its length twice, in an unknown way, or wrongly.
    ClientFraming,
    /// The upstream requires an upgrade that the proxy does not forward.
    UpgradeRequired,
    /// The target of the request has no path, or one that does not begin with a slash.
    Target,
    /// The target of the request and the base path of the upstream are too long together.
    TargetTooLong,
    /// The client has too many requests in flight.
    ClientRequests,
    /// A value of an HTTP/2 request begins or ends with white space.
    HeaderValue,
}

impl Failure {
    /// All values, in the order of their discriminants.
    pub(crate) const ALL: [Self; 18] = [
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
        Self::AboveRoot,
        Self::ClientFraming,
        Self::UpgradeRequired,
        Self::Target,
        Self::TargetTooLong,
        Self::ClientRequests,
        Self::HeaderValue,
    ];

    /// The label in metrics.
    pub(super) fn word(self) -> &'static str {
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
            Self::AboveRoot => "above_root",
            Self::ClientFraming => "client_framing",
            Self::UpgradeRequired => "upgrade_required",
            Self::Target => "target",
            Self::TargetTooLong => "target_too_long",
            Self::ClientRequests => "client_requests",
            Self::HeaderValue => "header_value",
        }
    }
}

/// A long-running task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Keeps the rules up to date with their file.
    Rules,
    /// Serves `/metrics` and the health endpoints.
    Admin,
    /// Pings the stores.
    Stores,
}

impl Task {
    /// All values, in the order of their discriminants.
    pub(super) const ALL: [Self; 3] = [Self::Rules, Self::Admin, Self::Stores];

    /// The label in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Admin => "admin",
            Self::Stores => "stores",
        }
    }
}
