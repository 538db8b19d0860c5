//! The certificate authorities that are trusted for an https upstream.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The authorities of the system, and those of a PEM file.
pub(super) fn trusted(file: Option<&Path>) -> Result<RootCertStore> {
    let system = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(system.certs);
    if let Some(file) = file {
        add_file(&mut roots, file).with_context(|| format!("--upstream-ca {}", file.display()))?;
    }
    if roots.is_empty() {
        let why = system.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        bail!(
            "no certificate authorities: the system has none{why}; install the package \
             ca-certificates, or give --upstream-ca FILE"
        );
    }
    Ok(roots)
}

/// A TLS configuration that offers this protocol.
pub(crate) fn config(roots: RootCertStore, protocol: &str) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().context("cannot set up TLS")?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(config)
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<()> {
    let bytes = std::fs::read(file).context("cannot be read")?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        count += 1;
        let certificate =
            certificate.map_err(|error| anyhow::anyhow!("certificate {count}: {error:?}"))?;
        roots.add(certificate).with_context(|| format!("certificate {count} is malformed"))?;
    }
    if count == 0 {
        bail!("it contains no certificate; expected blocks of -----BEGIN CERTIFICATE-----");
    }
    Ok(())
}
