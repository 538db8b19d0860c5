//! Large bodies, and TLS to a real server.

use std::process::Command;

use crate::loads;
use crate::nginx::Nginx;
use crate::server::Authority;
use crate::support::{Proxy, UNLIMITED, scratch};

const LARGE_BYTES: usize = 20 << 20;

pub(crate) fn a_large_file() {
    let bytes: Vec<u8> =
        (0..LARGE_BYTES).map(|index| u8::try_from(index % 251).expect("small")).collect();
    let nginx = Nginx::with("large", "", |folder| {
        std::fs::write(folder.join("files/large"), &bytes).expect("written");
    });
    let proxy = Proxy::before("large", nginx.address, &[]);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let url = format!("http://{}/large", proxy.listen);
        let output = Command::new("curl").args(["-s", "--max-time", "60", version, &url]).output();
        assert!(output.expect("it runs").stdout == bytes, "{version}");
    }
    assert_eq!(nginx.log(2), ["HTTP/1.1 200"; 2]);
}

/// nginx would choose HTTP/2 if it were offered.
pub(crate) fn an_upstream_with_tls() {
    let authority = Authority::new();
    for (words, http2, version) in [
        ("ssl", None, "HTTP/1.1 200"),
        ("ssl http2", None, "HTTP/1.1 200"),
        ("ssl http2", Some("--upstream-http2"), "HTTP/2.0 200"),
    ] {
        let tls = format!("{words};\nssl_certificate tls.pem;\nssl_certificate_key tls.key");
        let nginx = Nginx::with("tls", &tls, |folder| {
            let (certificate, key) = authority.certify_in_pem(&["localhost"]);
            std::fs::write(folder.join("tls.pem"), certificate).expect("written");
            std::fs::write(folder.join("tls.key"), key).expect("written");
        });
        let url = format!("https://localhost:{}", nginx.address.port());
        let file = authority.file("nginx-tls");
        let file = file.to_str().expect("UTF-8");
        let rules = scratch("nginx-tls.toml", UNLIMITED);
        let rules = rules.to_str().expect("UTF-8");
        let words = ["--upstream", &url, "--upstream-ca", file, "--rules", rules];
        let words: Vec<_> = words.into_iter().chain(http2).collect();
        let proxy = Proxy::start("nginx-tls", &words);
        let url = format!("http://{}/", proxy.listen);
        assert_eq!(loads::curl_http1(&url, 30).admitted, 30);
        assert_eq!(nginx.log(30), vec![version; 30], "{}", proxy.stderr());
    }
}
