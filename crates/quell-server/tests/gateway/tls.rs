//! TLS both ways, Unix sockets, HTTP/2 without TLS, and systemd: the command with a config file, as it is run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use quell_server::config::ServerTls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::files::{Authority, Dir};
use crate::kit::*;

pub(crate) const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The command, running, and what it said so far.
struct Quell {
    child: Child,
    socket: PathBuf,
    said: Arc<Mutex<Vec<String>>>,
}

impl Quell {
    /// On a Unix socket, with these settings beside `listen` and `admin`, and this upstream.
    async fn start(dir: &Dir, gateway: &str, upstream: &str, envs: &[(&str, &Path)]) -> Self {
        let listen = format!("unix:{}", dir.path("quell.sock").display());
        let quell = Self::spawn(dir, &listen, gateway, upstream, envs);
        until("it listens", || async { UnixStream::connect(&quell.socket).await.is_ok() }).await;
        quell
    }

    fn spawn(
        dir: &Dir,
        listen: &str,
        gateway: &str,
        upstream: &str,
        envs: &[(&str, &Path)],
    ) -> Self {
        let (file, socket) = (dir.path("quell.toml"), dir.path("quell.sock"));
        let text = format!(
            "version = 1\n[gateway]\nlisten = \"{listen}\"\nadmin = \"127.0.0.1:0\"\n{gateway}\n\
             [upstream.shop]\n{upstream}\n[[route]]\nupstream = \"shop\"\n"
        );
        fs::write(&file, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_quell"))
            .args(["gateway", "--cores", "2", "--config", file.to_str().unwrap()])
            .envs(envs.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, all) = (BufReader::new(child.stderr.take().unwrap()).lines(), said.clone());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                eprintln!("{line}"); // told when the test fails
                all.lock().unwrap().push(line);
            }
        });
        Self { child, socket, said }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).await.unwrap()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    async fn says(&self, word: &str) {
        let said = || async { self.said.lock().unwrap().iter().any(|line| line.contains(word)) };
        until(word, said).await;
    }
}

impl Drop for Quell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Certificates of one authority for `localhost`, and the settings that name them.
pub(crate) struct Site {
    pub(crate) ca: Authority,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    dir: Dir,
}

impl Site {
    pub(crate) fn new(name: &str) -> Self {
        let dir = Dir::new(&format!("gateway-{name}"));
        let ca = dir.authority("ca");
        let (cert, key) = (dir.path("cert.pem"), dir.path("key.pem"));
        ca.issue("localhost", &cert, &key);
        Self { ca, cert, key, dir }
    }

    fn tls(&self, more: &str) -> String {
        let (cert, key) = (self.cert.display(), self.key.display());
        format!("tls = {{ cert = \"{cert}\", key = \"{key}\"{more} }}")
    }

    /// A caller that trusts this authority, and shows what it is given.
    pub(crate) fn caller(&self, alpn: &[u8], own: Option<(&Path, &Path)>) -> TlsConnector {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots(&self.ca));
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).unwrap();
                builder.with_client_auth_cert(chain(cert), key).unwrap()
            }
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        TlsConnector::from(Arc::new(config))
    }

    /// An upstream that shows this site's certificate, and lets in whom `client_ca` signed, or everybody.
    pub(crate) fn acceptor(&self, client_ca: Option<&Authority>) -> TlsAcceptor {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let roots = Arc::new(roots(ca));
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let mut config = builder.with_single_cert(chain(&self.cert), key).unwrap();
        config.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    /// Asks once over a new connection; tells the answer and which certificate was shown.
    async fn ask(&self, quell: &Quell, alpn: &[u8]) -> (String, CertificateDer<'static>) {
        let stream = self.caller(alpn, None).connect(localhost(), quell.connect().await).await;
        let stream = stream.unwrap();
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        (ask(stream, alpn == H2).await.unwrap(), shown)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

pub(crate) fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

fn chain(file: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(file).unwrap().map(Result::unwrap).collect()
}

fn roots(ca: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain(&ca.file));
    roots
}

/// Asks once; tells the status and the body.
async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    http2: bool,
) -> Result<String, hyper::Error> {
    let request = match http2 {
        true => Request::get("http://localhost/"),
        false => Request::get("/").header("host", "localhost"),
    };
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let exchange = async {
        let (response, _task) = if http2 {
            let io = TokioIo::new(stream);
            let (mut send, http) = http2::handshake(TokioExecutor::new(), io).await?;
            let task = tokio::spawn(async { drop(http.await) });
            (send.send_request(request).await?, task)
        } else {
            let (mut send, http) = http1::handshake(TokioIo::new(stream)).await?;
            let task = tokio::spawn(async { drop(http.await) });
            (send.send_request(request).await?, task)
        };
        let (status, body) = (response.status(), response.into_body().collect().await?);
        Ok(format!("{} {}", status.as_u16(), String::from_utf8_lossy(&body.to_bytes())))
    };
    timeout(PATIENCE, exchange).await.expect("no reply in time")
}

/// An upstream over TLS for `localhost` that lets in whom `client_ca` signed, and tells which HTTP it was spoken to in.
async fn https_upstream(site: &Site, client_ca: &Authority) -> SocketAddr {
    let acceptor = site.acceptor(Some(client_ca));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
                let (io, service) = (TokioIo::new(stream), service_fn(spoken));
                if h2 {
                    let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = http.serve_connection(io, service).await;
                } else {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .header_read_timeout(None)
                        .serve_connection(io, service)
                        .await;
                }
            });
        }
    });
    addr
}

async fn spoken(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let spoken = if request.version() == Version::HTTP_2 { "http2" } else { "http1" };
    Ok(Response::new(Full::from(spoken)))
}

/// An upstream without TLS that says hello, and the setting that names it.
async fn hello() -> (Fake, String) {
    let upstream = Fake::start(|_, _| answer(200, "hello")).await;
    let endpoints = format!("endpoints = [\"http://{}\"]", upstream.addr);
    (upstream, endpoints)
}

#[tokio::test]
async fn callers_speak_either_http_with_and_without_tls() {
    let site = Site::new("versions");
    let (_upstream, endpoints) = hello().await;
    let quell = Quell::start(&site.dir, &site.tls(""), &endpoints, &[]).await;
    for alpn in [HTTP1, H2] {
        assert_eq!(site.ask(&quell, alpn).await.0, "200 hello");
    }
    drop(quell);
    let quell = Quell::start(&site.dir, "", &endpoints, &[]).await;
    for http2 in [false, true] {
        assert_eq!(ask(quell.connect().await, http2).await.unwrap(), "200 hello");
    }
}

#[tokio::test]
async fn with_client_ca_a_caller_needs_a_certificate() {
    let site = Site::new("client-ca");
    let (good, bad) = (site.dir.authority("good"), site.dir.authority("bad"));
    let (cert, key) = (site.dir.path("own.pem"), site.dir.path("own.key"));
    let (upstream, endpoints) = hello().await;
    let tls = site.tls(&format!(", client_ca = \"{}\"", good.file.display()));
    let quell = Quell::start(&site.dir, &tls, &endpoints, &[]).await;
    let reply = async |caller: TlsConnector| {
        let stream = caller.connect(localhost(), quell.connect().await).await.ok()?;
        ask(stream, false).await.ok()
    };
    assert_eq!(reply(site.caller(HTTP1, None)).await, None);
    bad.issue("caller", &cert, &key);
    assert_eq!(reply(site.caller(HTTP1, Some((&cert, &key)))).await, None);
    assert_eq!(upstream.seen().len(), 0);
    good.issue("caller", &cert, &key);
    let reply = reply(site.caller(HTTP1, Some((&cert, &key)))).await;
    assert_eq!(reply.as_deref(), Some("200 hello"));
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_after_a_hangup_signal_and_a_broken_one_is_told() {
    let site = Site::new("renewed");
    let (_upstream, endpoints) = hello().await;
    let quell = Quell::start(&site.dir, &site.tls(""), &endpoints, &[]).await;
    let first = site.ask(&quell, H2).await.1;
    fs::write(&site.cert, "nonsense").unwrap();
    quell.signal("HUP");
    quell.says("gateway.tls.cert is").await;
    assert_eq!(site.ask(&quell, H2).await, ("200 hello".into(), first.clone()));
    site.ca.issue("localhost", &site.cert, &site.key);
    quell.signal("HUP");
    let changed = || async { site.ask(&quell, H2).await.1 != first };
    until("the new certificate", changed).await;
}

#[tokio::test]
async fn a_file_that_is_not_taken_changes_no_certificate() {
    let site = Site::new("unproven");
    let (_upstream, endpoints) = hello().await;
    let quell = Quell::start(&site.dir, &site.tls(""), &endpoints, &[]).await;
    let first = site.ask(&quell, H2).await.1;
    site.ca.issue("localhost", &site.cert, &site.key);
    let file = site.dir.path("quell.toml");
    let missing = "tls = { ca = \"missing.pem\" }\n[[route]]";
    let text = fs::read_to_string(&file).unwrap();
    let wrong = text.replace("[[route]]", missing).replace("http://", "https://");
    assert_ne!(wrong, text);
    fs::write(&file, wrong).unwrap();
    quell.signal("HUP");
    quell.says("not reloaded").await;
    assert_eq!(site.ask(&quell, H2).await, ("200 hello".into(), first));
}

#[tokio::test]
async fn upstreams_over_tls_are_shown_our_certificate_and_asked_for_the_name_that_is_written() {
    let site = Site::new("upstream");
    let own = site.dir.authority("own-ca");
    let (cert, key) = (site.dir.path("own.pem"), site.dir.path("own.key"));
    own.issue("quell", &cert, &key);
    let addr = https_upstream(&site, &own).await;
    let upstream = |protocol: &str, more: &str| {
        format!(
            "endpoints = [\"https://{addr}\"]\nprotocol = \"{protocol}\"\n\
             tls = {{ ca = \"{}\"{more} }}",
            site.ca.file.display()
        )
    };
    let shown = format!(", cert = \"{}\", key = \"{}\"", cert.display(), key.display());
    let named = format!("{shown}, server_name = \"localhost\"");
    for (protocol, expected) in [("auto", "http2"), ("http1", "http1"), ("http2", "http2")] {
        let quell = Quell::start(&site.dir, "", &upstream(protocol, &named), &[]).await;
        let reply = ask(quell.connect().await, false).await.unwrap();
        assert_eq!(reply, format!("200 {expected}"), "{protocol}");
    }
    // The certificate is for another name, or we show none.
    for more in [shown.as_str(), ", server_name = \"localhost\""] {
        let quell = Quell::start(&site.dir, "", &upstream("http1", more), &[]).await;
        let reply = ask(quell.connect().await, false).await.unwrap();
        assert!(reply.starts_with("502"), "{more}: {reply}");
    }
}

#[tokio::test]
async fn systemd_hears_of_every_turn_and_a_drain_takes_the_sockets_file_away() {
    let dir = Dir::new("gateway-systemd");
    let path = dir.path("notify.sock");
    let manager = tokio::net::UnixDatagram::from_std({
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        manager
    })
    .unwrap();
    let hears = async |word: &str| {
        let mut text = vec![0; 1024];
        loop {
            let n = timeout(PATIENCE, manager.recv(&mut text)).await.expect(word).unwrap();
            if String::from_utf8_lossy(&text[..n]).lines().any(|line| line == word) {
                return;
            }
        }
    };
    let (_upstream, endpoints) = hello().await;
    let mut quell = Quell::start(&dir, "", &endpoints, &[("NOTIFY_SOCKET", &path)]).await;
    hears("READY=1").await;
    quell.signal("HUP");
    hears("RELOADING=1").await;
    hears("READY=1").await;
    quell.signal("TERM");
    hears("STOPPING=1").await;
    let ended = async {
        while quell.child.try_wait().unwrap().is_none() {
            sleep(ms(5)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("still running");
    assert!(!quell.socket.exists());
}

#[tokio::test]
async fn callers_speak_tls_over_tcp() {
    let site = Site::new("tcp");
    let (_upstream, endpoints) = hello().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let _quell = Quell::spawn(&site.dir, &free, &site.tls(""), &endpoints, &[]);
    until("it listens", || async { TcpStream::connect(&free).await.is_ok() }).await;
    let stream = TcpStream::connect(&free).await.unwrap();
    let stream = site.caller(H2, None).connect(localhost(), stream).await.unwrap();
    assert_eq!(ask(stream, true).await.unwrap(), "200 hello");
}

#[tokio::test]
async fn whoever_comes_to_no_terms_on_tls_is_counted() {
    let (site, stranger) = (Site::new("terms"), Site::new("terms-of-others"));
    let (fake, _) = hello().await;
    let gateway = gateway_with(fake.addr, |config| {
        let (cert, key) = (site.cert.clone(), site.key.clone());
        config.file.gateway.tls = Some(ServerTls { cert, key, client_ca: None });
    });
    let failures = async || metric(&gateway, "quell_tls_handshake_failures_total").await;
    let connect = async || TcpStream::connect(gateway.addr()).await.unwrap();
    let stream = site.caller(HTTP1, None).connect(localhost(), connect().await).await.unwrap();
    ask(stream, false).await.unwrap();
    assert_eq!(failures().await, 0.0);
    // In plain words, and by a name that its caller does not trust.
    connect().await.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    until("the first is counted", || async { failures().await == 1.0 }).await;
    let refused = stranger.caller(HTTP1, None).connect(localhost(), connect().await).await;
    assert!(refused.is_err());
    until("the second is counted", || async { failures().await == 2.0 }).await;
}
