//! The signals that the proxy handles.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, or Ctrl-C.
#[derive(Debug)]
pub(crate) struct StopSignals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

/// SIGHUP; on systems without it, this never completes.
#[derive(Debug)]
pub(crate) struct HangupSignals {
    #[cfg(unix)]
    hangup: Signal,
}

#[cfg(unix)]
impl StopSignals {
    /// Installs the handlers. From now on these signals do not end the process.
    pub(crate) fn listen() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl StopSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
impl HangupSignals {
    /// Installs the handler. From now on the signal does not end the process.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { hangup: signal(SignalKind::hangup())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        if self.hangup.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
impl HangupSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(crate) async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
