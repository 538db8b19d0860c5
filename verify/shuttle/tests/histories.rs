//! Whole limiters: requests, peeks and resets, each history explained by the oracle.

#![cfg(tollgate_shuttle)]

use shuttle_tests::explore::explore;
use shuttle_tests::families as of;

macro_rules! histories {
    ($($test:ident: $name:literal, $family:expr;)*) => {
        $(#[test]
        fn $test() {
            explore($name, $family);
        })*
    };
}

histories! {
    bucket: "direct: token bucket", of::direct_bucket;
    window: "direct: fixed window", of::direct_window;
    sub_windows: "direct: sub-windows", of::direct_sub_windows;
    sub_windows_reset: "direct: sub-windows, resets", of::direct_sub_windows_reset;
    log: "direct: log", of::direct_log;
    log_reset: "direct: log, resets", of::direct_log_reset;
    wide_claims: "wide: claims", of::wide_claims;
    wide_claims_skewed: "wide: claims, clocks differ", of::wide_claims_skewed;
    wide_room: "wide: claims while room is made", of::claims_while_room_is_made;
    wide_evictions: "wide: evictions", of::wide_evictions;
    compact_claims: "compact: claims, clocks differ", of::compact_claims;
    compact_evictions: "compact: evictions", of::compact_evictions;
    wide_windows: "wide: fixed windows, claims", of::wide_windows;
    wide_sub_windows: "wide: sub-windows, claims", of::wide_sub_windows;
    wide_logs: "wide: logs, evictions", of::wide_logs;
    reservations: "direct: reservations", of::direct_reservations;
    wide_reservations: "wide: reservations", of::wide_reservations;
    in_flight: "direct: in flight", of::direct_in_flight;
    wide_in_flight: "wide: in flight, claims", of::wide_in_flight;
    dynamic_quota: "direct: quota that changes", of::dynamic_quota;
    claimed_logs: "wide: logs of claimed keys, clocks differ", of::claimed_logs;
}
