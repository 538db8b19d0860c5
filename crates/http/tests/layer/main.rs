//! The layer with real services, and over real connections.

mod adaptive;
mod bans;
mod dialects;
mod grpc;
mod hyper_server;
mod in_flight;
mod keys;
mod penalized_queues;
mod pending;
mod plans;
mod queues;
mod resets;
mod service;
mod several;
mod sockets;
mod spoofing;
mod volume;
