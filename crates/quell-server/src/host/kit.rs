//! Test kit: a directory of a test's own, and certificates in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A directory of this test's own, gone at its end.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("quell-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// An authority and the file of its certificate.
    pub(crate) fn authority(&self, name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let file = self.path(&format!("{name}.pem"));
        fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { file, issuer: Issuer::new(params, key) }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Who signs certificates.
pub(crate) struct Authority {
    pub(crate) file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Writes a certificate for this name, and its key beside it, over what is there.
    pub(crate) fn issue(&self, name: &str, cert: &Path, key: &Path) {
        let own = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        fs::write(cert, params.signed_by(&own, &self.issuer).unwrap().pem()).unwrap();
        fs::write(key, own.serialize_pem()).unwrap();
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    }
}
