//! Door: who may ask the admin side, and who may change something.
//!
//! **Why.** Loopback is no wall: any page in a browser on the same machine can send requests to it, under a name of its own
//! that it lets point to 127.0.0.1. Such a request names the page's host, or its origin. So a request has to be for a name
//! that only this machine has; and whoever changes something has to know the token.

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::operations::Token;

/// Why not, for people.
pub(super) type Refused = (StatusCode, String);

/// Whether a request comes from this machine, and was meant to.
pub(super) fn is_local(uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
    let foreign = |what: &str| {
        let text =
            format!("{what} names another machine: ask for http://127.0.0.1 or http://localhost\n");
        (StatusCode::FORBIDDEN, text)
    };
    let hosts = headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or("?"));
    let named = uri.authority().map(|authority| authority.as_str());
    if !hosts.chain(named).all(is_loopback) {
        return Err(foreign("Host"));
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    let is_ours = |origin: &str| {
        origin.split_once("://").is_some_and(|(scheme, host)| {
            (scheme == "http" || scheme == "https") && is_loopback(host)
        })
    };
    match origins.all(|origin| origin.to_str().is_ok_and(is_ours)) {
        true => Ok(()),
        false => Err(foreign("Origin")),
    }
}

/// Whether a host, with or without its port, is this machine by a name that nobody can take.
fn is_loopback(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<http::uri::Authority>() else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// Whether whoever asks may change something.
pub(super) fn may_change(token: Token<'_>, headers: &HeaderMap) -> Result<(), Refused> {
    let Some(secret) = token.secret else {
        let text = format!(
            "nothing can be changed here: set {} = \"file:/path\" or \"env:NAME\" first\n",
            token.setting
        );
        return Err((StatusCode::FORBIDDEN, text));
    };
    let known = match secret.reveal() {
        Ok(known) if !known.is_empty() => known,
        Ok(_) => {
            let text = format!("the admin token at {secret} is empty: put one there\n");
            return Err((StatusCode::FORBIDDEN, text));
        }
        Err(error) => return Err((StatusCode::FORBIDDEN, format!("the admin token at {error}\n"))),
    };
    let told = headers.get(AUTHORIZATION).and_then(|told| told.as_bytes().split_at_checked(7));
    let told =
        told.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer ")).map(|(_, told)| told);
    let Some(told) = told else {
        let text = "this needs the admin token: send `authorization: Bearer <token>`\n";
        return Err((StatusCode::UNAUTHORIZED, text.to_owned()));
    };
    // Digests have one length and no relation to how much of the token was right.
    match Sha256::digest(told).ct_eq(&Sha256::digest(known.as_bytes())).into() {
        true => Ok(()),
        false => Err((StatusCode::UNAUTHORIZED, "this is not the admin token\n".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    /// What a gateway wants to be shown.
    fn gateways(secret: Option<&Secret>) -> Token<'_> {
        Token { setting: "gateway.admin_token", secret }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_page_of_another_machine_is_kept_out_whatever_its_name_points_to() {
        let local = |pairs: &[(&'static str, &str)]| {
            is_local(&Uri::from_static("/state"), &headers(pairs)).is_ok()
        };
        for host in ["localhost", "LOCALHOST:9901", "127.0.0.1:9901", "127.9.9.9", "[::1]:9901"] {
            assert!(local(&[("host", host)]), "{host}");
            let origin = format!("http://{host}");
            assert!(local(&[("host", "localhost"), ("origin", &origin)]), "{origin}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "",
            "evil@localhost",
            "[::2]",
            "0.0.0.0",
            "localhost/",
            "::1",
        ] {
            assert!(!local(&[("host", host)]), "{host}");
            let origin = format!("http://{host}");
            assert!(!local(&[("host", "localhost"), ("origin", &origin)]), "{origin}");
        }
        assert!(!local(&[("host", "localhost"), ("origin", "null")]));
        assert!(!local(&[("host", "localhost"), ("host", "evil.example")]));
        assert!(is_local(&Uri::from_static("http://evil.example/state"), &headers(&[])).is_err());
    }

    #[test]
    fn changes_need_a_token_that_is_set_and_known() {
        let secret: Secret = "env:CARGO_PKG_NAME".parse().unwrap();
        let may = |token: Option<&Secret>, told: &str| {
            may_change(gateways(token), &headers(&[("authorization", told)]))
                .map_err(|(status, _)| status.as_u16())
        };
        assert_eq!(may(Some(&secret), "Bearer quell-server"), Ok(()));
        assert_eq!(may(Some(&secret), "bearer quell-server"), Ok(()));
        for wrong in
            ["Bearer quell", "Bearer quell-server ", "Basic quell-server", "Bearer", "", "Bearer "]
        {
            assert_eq!(may(Some(&secret), wrong), Err(401), "{wrong}");
        }
        assert_eq!(may_change(gateways(Some(&secret)), &headers(&[])).unwrap_err().0.as_u16(), 401);
        let (status, text) =
            may_change(gateways(None), &headers(&[("authorization", "Bearer x")])).unwrap_err();
        assert_eq!((status.as_u16(), text.contains("gateway.admin_token")), (403, true));
        let gone: Secret = "env:QUELL_TEST_NO_SUCH".parse().unwrap();
        assert_eq!(may(Some(&gone), "Bearer "), Err(403));
    }
}
