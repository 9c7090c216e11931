//! Who is let in, who is trusted, and what a change of files does.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustls::ClientConfig;
use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::Instant;

use super::*;
use crate::host::kit::{Authority, Dir};

/// A server of `localhost`, whom it is signed by, and its files.
struct Site {
    ca: Authority,
    cert: PathBuf,
    key: PathBuf,
    dir: Dir,
}

impl Site {
    fn new(name: &str) -> Self {
        let dir = Dir::new(&format!("tls-{name}"));
        let ca = dir.authority("ca");
        let (cert, key) = (dir.path("cert.pem"), dir.path("key.pem"));
        ca.issue("localhost", &cert, &key);
        Self { ca, cert, key, dir }
    }

    fn server(&self, client_ca: Option<&Authority>) -> Server {
        Server::new("gateway.tls", &self.cert, &self.key, client_ca.map(|ca| ca.file.as_path()))
            .unwrap()
    }

    fn trust(&self) -> Trust<'_> {
        Trust { table: "upstream.shop.tls", ca: Some(&self.ca.file), ..Trust::default() }
    }

    fn client(&self) -> Client {
        Client::new(self.trust(), Offer::Auto).unwrap()
    }
}

/// What both sides agreed on.
struct Agreed {
    version: Version,
    shown: Vec<u8>,
    resumed: bool,
}

/// Agrees and sends a byte either way: only then the client knows that it was let in.
async fn shake(server: &Server, client: &Client, host: &str) -> io::Result<Agreed> {
    let (near, far) = duplex(16 * 1024);
    let serve = async {
        let (mut stream, version) = server.accept(far).await?;
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.flush().await?;
        Ok::<_, io::Error>(version)
    };
    let call = async {
        let (mut stream, version) = client.connect(&client.name(host).unwrap(), near).await?;
        stream.write_u8(7).await?;
        stream.flush().await?;
        assert_eq!(stream.read_u8().await?, 7);
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
        let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
        Ok::<_, io::Error>(Agreed { version, shown, resumed })
    };
    let (served, called) = tokio::join!(serve, call);
    let called = called?;
    assert_eq!(served?, called.version);
    Ok(called)
}

#[tokio::test]
async fn alpn_says_which_http_is_spoken_and_who_does_not_know_it_speaks_http1() {
    let site = Site::new("alpn");
    let server = site.server(None);
    let offers = [
        (Offer::Auto, Version::Http2),
        (Offer::Http1, Version::Http1),
        (Offer::Http2, Version::Http2),
    ];
    for (offer, version) in offers {
        let client = Client::new(site.trust(), offer).unwrap();
        assert_eq!(
            shake(&server, &client, "localhost").await.unwrap().version,
            version,
            "{offer:?}"
        );
    }
    let (near, far) = duplex(16 * 1024);
    let mut config = ClientConfig::clone(&site.client().live.load());
    config.alpn_protocols.clear();
    let connect = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(named("localhost").unwrap(), near);
    let (accepted, connected) = tokio::join!(server.accept(far), connect);
    connected.unwrap();
    assert_eq!(accepted.unwrap().1, Version::Http1);
}

#[tokio::test]
async fn only_the_named_authority_and_the_right_name_are_trusted() {
    let site = Site::new("trust");
    let server = site.server(None);
    let other = site.dir.authority("other");
    let stranger = Trust { ca: Some(&other.file), ..site.trust() };
    let stranger = Client::new(stranger, Offer::Auto).unwrap();
    assert!(shake(&server, &stranger, "localhost").await.is_err());
    assert!(shake(&server, &site.client(), "127.0.0.1").await.is_err());
    let renamed = Trust { server_name: Some("localhost"), ..site.trust() };
    let renamed = Client::new(renamed, Offer::Auto).unwrap();
    assert!(shake(&server, &renamed, "127.0.0.1").await.is_ok());
}

#[tokio::test]
async fn with_client_ca_only_callers_with_a_certificate_of_it_are_let_in() {
    let site = Site::new("mutual");
    let (good, bad) = (site.dir.authority("good"), site.dir.authority("bad"));
    let server = site.server(Some(&good));
    assert!(shake(&server, &site.client(), "localhost").await.is_err());
    let (cert, key) = (site.dir.path("client.pem"), site.dir.path("client.key"));
    bad.issue("shop", &cert, &key);
    let ours = Trust { cert: Some(&cert), key: Some(&key), ..site.trust() };
    let client = Client::new(ours, Offer::Auto).unwrap();
    assert!(shake(&server, &client, "localhost").await.is_err());
    // A new certificate for us is taken up without a restart.
    good.issue("shop", &cert, &key);
    client.live.prepare().unwrap()();
    assert!(shake(&server, &client, "localhost").await.is_ok());
}

#[tokio::test]
async fn a_session_is_not_resumed_past_a_change_of_whom_to_trust() {
    let site = Site::new("resume");
    let (old, new) = (site.dir.authority("old"), site.dir.authority("new"));
    let server = site.server(Some(&old));
    let (cert, key) = (site.dir.path("client.pem"), site.dir.path("client.key"));
    old.issue("shop", &cert, &key);
    let ours = Trust { cert: Some(&cert), key: Some(&key), ..site.trust() };
    let client = Client::new(ours, Offer::Auto).unwrap();
    assert!(!shake(&server, &client, "localhost").await.unwrap().resumed);
    assert!(shake(&server, &client, "localhost").await.unwrap().resumed);
    fs::copy(&new.file, &old.file).unwrap();
    server.live.prepare().unwrap()();
    assert!(shake(&server, &client, "localhost").await.is_err());
}

#[tokio::test]
async fn a_new_certificate_is_shown_once_it_was_seen_twice_and_a_bad_one_never() {
    let site = Site::new("reload");
    let (server, client) = (site.server(None), site.client());
    let first = shake(&server, &client, "localhost").await.unwrap().shown;
    assert!(!server.live.look().unwrap());

    site.ca.issue("localhost", &site.cert, &site.key);
    assert!(!server.live.look().unwrap(), "it may still be in the middle of being written");
    assert_eq!(shake(&server, &client, "localhost").await.unwrap().shown, first);
    assert!(server.live.look().unwrap());
    let second = shake(&server, &client, "localhost").await.unwrap().shown;
    assert_ne!(first, second);

    let key = fs::read(&site.key).unwrap();
    for bad in ["", "-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n"] {
        fs::write(&site.key, bad).unwrap();
        assert!(!server.live.look().unwrap());
        let error = server.live.look().unwrap_err().to_string();
        assert!(error.contains("gateway.tls.key is") && error.contains("key.pem"), "{error}");
        assert!(!error.contains("nonsense"), "{error}");
        assert!(!server.live.look().unwrap(), "told once is enough");
        assert!(server.live.prepare().is_err(), "who asks is told again");
        assert_eq!(shake(&server, &client, "localhost").await.unwrap().shown, second);
    }
    fs::write(&site.key, key).unwrap();
    assert!(!server.live.look().unwrap());
    assert!(server.live.look().unwrap());
    assert_eq!(shake(&server, &client, "localhost").await.unwrap().shown, second);
}

#[test]
fn what_cannot_be_used_is_named_with_its_setting() {
    let site = Site::new("errors");
    let told = |cert: &Path, key: &Path, ca: Option<&Path>| {
        Server::new("gateway.tls", cert, key, ca).unwrap_err().to_string()
    };
    let missing = site.dir.path("missing.pem");
    assert!(told(&missing, &site.key, None).contains("gateway.tls.cert is"));
    assert!(told(&site.cert, &missing, None).contains("gateway.tls.key is"));
    assert!(told(&site.key, &site.key, None).contains("no certificate"));
    assert!(told(&site.cert, &site.cert, None).contains("no private key"));
    assert!(told(&site.cert, &site.key, Some(&missing)).contains("gateway.tls.client_ca is"));
    let (cert, key) = (site.dir.path("other.pem"), site.dir.path("other.key"));
    site.ca.issue("localhost", &cert, &key);
    assert!(told(&site.cert, &key, None).contains("not the key of the certificate"));
    fs::write(&cert, vec![b'\n'; 1024 * 1024 + 1]).unwrap();
    assert!(told(&cert, &key, None).contains("1 MiB"));

    let told = |trust| Client::new(trust, Offer::Auto).unwrap_err().to_string();
    let half = Trust { cert: Some(&site.cert), ..site.trust() };
    assert_eq!(told(half), "upstream.shop.tls.cert stands alone: write both cert and key");
    let half = Trust { key: Some(&site.key), ..site.trust() };
    assert_eq!(told(half), "upstream.shop.tls.key stands alone: write both cert and key");
    assert!(
        told(Trust { server_name: Some("a b"), ..site.trust() }).contains("\"a b\" is no name")
    );
    for file in ["/nonexistent.pem", "/dev/null"] {
        let error = told(Trust { ca: Some(Path::new(file)), ..site.trust() });
        assert!(error.contains(&format!("upstream.shop.tls.ca is {file}")), "{error}");
    }
}

#[test]
fn a_key_that_others_can_read_is_told() {
    let site = Site::new("mode");
    let server = site.server(None);
    assert_eq!(server.live.warning(), None);
    fs::set_permissions(&site.key, fs::Permissions::from_mode(0o644)).unwrap();
    let warning = server.live.warning().unwrap();
    assert!(warning.contains("gateway.tls.key is") && warning.contains("mode 644"), "{warning}");
    assert_eq!(site.client().live.warning(), None);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_never_finishes_the_handshake_is_left_after_five_seconds() {
    let site = Site::new("silent");
    let server = site.server(None);
    let (_near, far) = duplex(64);
    let begun = Instant::now();
    let error = server.accept(far).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(begun.elapsed(), std::time::Duration::from_secs(5));
}

#[test]
fn early_data_is_neither_taken_nor_sent() {
    let site = Site::new("early");
    assert_eq!(site.server(None).live.load().max_early_data_size, 0);
    assert!(!site.client().live.load().enable_early_data);
}
