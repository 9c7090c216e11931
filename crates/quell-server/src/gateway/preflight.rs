//! Preflight: whether what a file only names is there and can be used, found out by loading it as a start does.
//!
//! **Why.** A file can be right and its gateway still not start: a variable is not set, a key is not that of its
//! certificate, a hash was pasted in half. That is found out at a deploy, unless somebody looks before.
//!
//! **How.** What is not there at all is told apart from what is there and of no use: the first is usual on a machine that
//! only checks the file, the second is wrong on every machine. What is there is loaded by the very code that a start runs.

use std::path::Path;

use crate::config::{Config, Secret, ServerTls};
use quell::Clock;

use super::backend;
use super::tenants::Tenants;
use crate::host::tls::{Server, TlsError};

/// Where a gateway's own certificate is written.
const TABLE: &str = "gateway.tls";

/// What was found, a line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// It is there and cannot be used: no gateway starts with it, or does what the file says.
    pub(crate) unusable: Vec<String>,
    /// It is not on this machine.
    pub(crate) missing: Vec<String>,
    /// It works, and should not be so.
    pub(crate) warnings: Vec<String>,
}

/// Looks at every secret and certificate that a gateway of this file would load.
pub(crate) fn look(file: &Config) -> Findings {
    let mut findings = Findings::default();
    findings.admin_token(file.gateway.admin_token.as_ref());
    findings.tenants(file);
    if let Some(ServerTls { cert, key, client_ca }) = &file.gateway.tls {
        let files = [("cert", Some(cert)), ("key", Some(key)), ("client_ca", client_ca.as_ref())];
        if findings.are_here(TABLE, &files.map(|(name, file)| (name, file.map(|f| &**f)))) {
            let server = Server::new(TABLE, cert, key, client_ca.as_deref());
            findings.loaded(server.map(|server| server.live.warning()));
        }
    }
    // Where nothing speaks TLS, nothing is loaded.
    let with_tls = |(_, written): &(&String, &crate::config::Upstream)| {
        written.endpoints.iter().any(|target| target.tls)
    };
    for (name, written) in file.upstreams.iter().filter(with_tls) {
        let tls = &written.tls;
        let files =
            [("ca", tls.ca.as_deref()), ("cert", tls.cert.as_deref()), ("key", tls.key.as_deref())];
        if findings.are_here(&format!("upstream.{name}.tls"), &files) {
            let client = backend::client(written, name).and_then(|client| {
                let mut targets = written.endpoints.iter().filter(|target| target.tls);
                targets.try_for_each(|target| client.name(&target.host).map(drop))?;
                Ok(client.live.warning())
            });
            findings.loaded(client);
        }
    }
    findings
}

impl Findings {
    fn admin_token(&mut self, token: Option<&Secret>) {
        let Some(token) = token else { return };
        if is_missing(token) {
            return self.missing.push(format!("gateway.admin_token: {token} is not there"));
        }
        match token.reveal() {
            Ok(found) if found.is_empty() => {
                self.unusable.push(format!("gateway.admin_token: what is at {token} is empty"));
            }
            Ok(_) => {}
            Err(error) => self.unusable.push(format!("gateway.admin_token: {error}")),
        }
    }

    fn tenants(&mut self, file: &Config) {
        let mut here = Config { tenants: file.tenants.clone(), ..Config::default() };
        for (name, tenant) in &mut here.tenants {
            tenant.keys.retain(|place| {
                let missing = is_missing(place);
                if missing {
                    self.missing.push(format!("tenant.{name}.keys: {place} is not there"));
                }
                !missing
            });
        }
        let (_, wrong) = Tenants::collect(&here, &Clock::system());
        self.unusable.extend(wrong.iter().map(ToString::to_string));
    }

    /// Whether all these files are on this machine; those that are not are noted.
    fn are_here(&mut self, table: &str, files: &[(&str, Option<&Path>)]) -> bool {
        let before = self.missing.len();
        for (setting, path) in files {
            if let Some(path) = path.filter(|path| is_away(path)) {
                self.missing.push(format!("{table}.{setting}: {} is not there", path.display()));
            }
        }
        self.missing.len() == before
    }

    fn loaded(&mut self, loaded: Result<Option<String>, TlsError>) {
        match loaded {
            Ok(warning) => self.warnings.extend(warning),
            // It is this machine that has none.
            Err(error @ TlsError::NoRoots) => self.missing.push(error.to_string()),
            Err(error) => self.unusable.push(error.to_string()),
        }
    }
}

fn is_missing(place: &Secret) -> bool {
    match place {
        Secret::Env(name) => std::env::var_os(name).is_none(),
        Secret::File(path) => is_away(path),
    }
}

/// What may not be looked at is not away: nobody who starts a gateway like this can read it either.
fn is_away(path: &Path) -> bool {
    path.try_exists().is_ok_and(|exists| !exists)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::kit::Dir;
    use crate::key::Hash;

    fn found(lines: &str) -> Findings {
        look(&Config::parse("quell.toml", &format!("version = 1\n{lines}"), &[]).unwrap())
    }

    #[test]
    fn what_is_missing_here_is_told_apart_from_what_is_of_no_use_anywhere() {
        let dir = Dir::new("preflight-secrets");
        let place = |name: &str, text: &str| {
            fs::write(dir.path(name), text).unwrap();
            format!("\"file:{}\"", dir.path(name).display())
        };
        let (good, bad, empty) = (
            place("good", &Hash::of(b"qk_some_key_of_a_tenant_that_is_long").to_string()),
            place("bad", "hunter2"),
            place("empty", ""),
        );
        let text = format!(
            "gateway.admin_token = {empty}\n[tenant.a]\nkeys = [{good}, {bad}, \"env:QUELL_NO_SUCH\"]\n\
             [tenant.b]\nkeys = [{good}]\n"
        );
        let Findings { unusable, missing, warnings } = found(&text);
        assert_eq!(missing, ["tenant.a.keys: env:QUELL_NO_SUCH is not there"]);
        let [token, hash, shared] = unusable.as_slice() else { panic!("{unusable:?}") };
        assert!(token.starts_with("gateway.admin_token: what is at file:"), "{token}");
        assert!(hash.starts_with("tenant.a.keys: what is in file:"), "{hash}");
        assert!(shared.contains("has the hash of a key of tenant a"), "{shared}");
        assert!(!format!("{unusable:?}").contains("hunter2") && warnings.is_empty());
    }

    #[test]
    fn certificates_are_loaded_as_a_start_loads_them() {
        let dir = Dir::new("preflight-tls");
        let ca = dir.authority("ca");
        let (cert, key, other) = (dir.path("cert.pem"), dir.path("key.pem"), dir.path("other.pem"));
        ca.issue("localhost", &cert, &key);
        ca.issue("localhost", &dir.path("unused.pem"), &other);
        let server = |key: &Path| {
            let (cert, key) = (cert.display(), key.display());
            format!("[gateway]\ntls = {{ cert = \"{cert}\", key = \"{key}\" }}\n")
        };
        assert!(found(&server(&key)).unusable.is_empty());
        let wrong = found(&server(&other)).unusable;
        assert!(wrong[0].contains("it is not the key of the certificate beside it"), "{wrong:?}");
        let away = dir.path("away.pem");
        let missing = format!("gateway.tls.key: {} is not there", away.display());
        assert_eq!(
            found(&server(&away)),
            Findings { missing: vec![missing], ..Findings::default() }
        );

        fs::write(&away, "no certificate").unwrap();
        let upstream = format!(
            "[upstream.x]\nendpoints = [\"https://localhost:1\"]\ntls = {{ ca = \"{}\" }}\n",
            away.display()
        );
        let wrong = found(&upstream).unusable;
        assert!(wrong[0].starts_with("upstream.x.tls.ca is "), "{wrong:?}");
        assert_eq!(found(&upstream.replace("away", "nowhere")).missing.len(), 1);
        let plain = "[upstream.x]\nendpoints = [\"http://localhost:1\"]\n";
        assert_eq!(found(plain), Findings::default());
    }
}
