//! PEM files: who names them, what is in them, and whether they have changed.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};

use super::TlsError;

/// The largest file that is read.
const LARGEST: u64 = 1024 * 1024;

/// Tells contents apart.
pub(super) type Mark = [u8; 32];

/// A chain of certificates and the key of its first.
pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A PEM file and the setting that names it.
#[derive(Debug, Clone)]
pub(super) struct Pem {
    pub(super) setting: String,
    pub(super) path: PathBuf,
}

impl Pem {
    pub(super) fn new(table: &str, setting: &str, path: &Path) -> Self {
        Self { setting: format!("{table}.{setting}"), path: path.to_owned() }
    }

    fn read(&self) -> Content {
        Content { pem: self.clone(), bytes: bytes(&self.path) }
    }

    fn unusable(&self, why: impl ToString) -> TlsError {
        let (setting, file) = (self.setting.clone(), self.path.display().to_string());
        TlsError::File { setting, file, why: why.to_string() }
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err("it is larger than 1 MiB".into());
    }
    Ok(bytes)
}

/// The files of one side: its own certificate and key, and whose certificates it trusts.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) cert: Option<Pem>,
    pub(super) key: Option<Pem>,
    pub(super) ca: Option<Pem>,
}

impl Files {
    pub(super) fn read(&self) -> Contents {
        let read = |pem: &Option<Pem>| pem.as_ref().map(Pem::read);
        Contents { cert: read(&self.cert), key: read(&self.key), ca: read(&self.ca) }
    }

    /// What people should know about them: a key that others can read is no secret.
    pub(super) fn warning(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        let mode = fs::metadata(&key.path).ok()?.permissions().mode() & 0o777;
        (mode & 0o077 != 0).then(|| {
            let (setting, file) = (&key.setting, key.path.display());
            format!("{setting} is {file}, which others can read (mode {mode:03o}): chmod 600 it")
        })
    }
}

/// What was in a file, or why that is not known.
struct Content {
    pem: Pem,
    bytes: Result<Vec<u8>, String>,
}

impl Content {
    fn get(&self) -> Result<&[u8], TlsError> {
        self.bytes.as_deref().map_err(|why| self.pem.unusable(why))
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.get()?).collect();
        match all {
            Ok(all) if all.is_empty() => Err(self.pem.unusable("it holds no certificate")),
            Ok(all) => Ok(all),
            Err(error) => Err(self.pem.unusable(error)),
        }
    }
}

/// What was in the files of one side.
pub(super) struct Contents {
    cert: Option<Content>,
    key: Option<Content>,
    ca: Option<Content>,
}

impl Contents {
    pub(super) fn mark(&self) -> Mark {
        let mut digest = Sha256::new();
        for content in [&self.cert, &self.key, &self.ca] {
            let bytes = content.as_ref().and_then(|content| content.bytes.as_deref().ok());
            digest.update(bytes.map_or(u64::MAX, |bytes| bytes.len() as u64).to_le_bytes());
            digest.update(bytes.unwrap_or_default());
        }
        digest.finalize().into()
    }

    /// Our own certificate, if we have one.
    pub(super) fn identity(&self) -> Result<Option<Identity>, TlsError> {
        let (cert, key) = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => (cert, key),
            (None, None) => return Ok(None),
            (Some(half), None) | (None, Some(half)) => {
                return Err(TlsError::Half(half.pem.setting.clone()));
            }
        };
        // What the reader of keys says could quote the file, so it is not asked.
        let private = PrivateKeyDer::from_pem_slice(key.get()?)
            .map_err(|_| key.pem.unusable("it holds no private key in PEM form"))?;
        Ok(Some((cert.certificates()?, private)))
    }

    /// A certificate and a key that do not go together, or that nothing can be done with.
    pub(super) fn refused(&self, error: rustls::Error) -> TlsError {
        match (&self.key, error) {
            (Some(key), rustls::Error::InconsistentKeys(_)) => {
                key.pem.unusable("it is not the key of the certificate beside it")
            }
            (Some(key), error) => key.pem.unusable(error),
            (None, error) => TlsError::Config(error),
        }
    }

    /// Whose certificates to trust, if that was said.
    pub(super) fn roots(&self) -> Result<Option<RootCertStore>, TlsError> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in ca.certificates()? {
            roots.add(certificate).map_err(|error| ca.pem.unusable(error))?;
        }
        Ok(Some(roots))
    }
}
