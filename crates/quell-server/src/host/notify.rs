//! What systemd is told: ready, reloading, stopping, and that we are alive.
//!
//! **Why.** With `Type=notify` a unit counts as started when it accepts, not when its process exists, a reload ends when it
//! has ended, and a process that hangs is restarted (`WatchdogSec=`).
//!
//! **How.** Lines of text to the socket that `NOTIFY_SOCKET` names, a path or (with `@`) an abstract name. Where nobody is to be
//! told, every call does nothing. A message that cannot be sent is dropped: the manager being away is no reason to
//! stop serving. The variables stay set, as nothing is started from here that could mistake them for its own.
//!
//! A [`Notify`] is made once by the command. The order of a life: [`ready`](Notify::ready), then any number of
//! [`reloading`](Notify::reloading) each followed by `ready`, then [`stopping`](Notify::stopping); and
//! [`alive`](Notify::alive) every [`watchdog`](Notify::watchdog) by whoever would notice that nothing moves.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

/// What the module says.
#[derive(Debug)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// As the environment of this process says.
    pub fn from_env() -> io::Result<Self> {
        let mut usec = 0;
        let watched = sd_notify::watchdog_enabled(false, &mut usec);
        let watchdog = (watched && usec > 0).then(|| Duration::from_micros(usec));
        Self::new(std::env::var_os("NOTIFY_SOCKET").as_deref(), watchdog)
    }

    fn new(name: Option<&OsStr>, watchdog: Option<Duration>) -> io::Result<Self> {
        let socket = match name {
            None => None,
            Some(name) => {
                let addr = match name.as_bytes() {
                    [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
                    _ => SocketAddr::from_pathname(name)?,
                };
                let socket = UnixDatagram::unbound()?;
                socket.connect_addr(&addr)?;
                socket.set_nonblocking(true)?;
                Some(socket)
            }
        };
        Ok(Self { socket, watchdog })
    }

    /// It accepts, or a reload has ended; `status` is shown by `systemctl status`.
    pub fn ready(&self, status: &str) {
        self.tell(&[NotifyState::Ready, NotifyState::Status(&line(status))]);
    }

    /// A reload begins: [`ready`](Self::ready) ends it, whether or not it changed anything.
    pub fn reloading(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            self.tell(&[NotifyState::Reloading, now]);
        }
    }

    /// It drains.
    pub fn stopping(&self, status: &str) {
        self.tell(&[NotifyState::Stopping, NotifyState::Status(&line(status))]);
    }

    /// It moves.
    pub fn alive(&self) {
        self.tell(&[NotifyState::Watchdog]);
    }

    /// How often [`alive`](Self::alive) is to be said: half of what is granted. `None` if nobody listens for it.
    pub fn watchdog(&self) -> Option<Duration> {
        self.socket.as_ref().and(self.watchdog).map(|granted| granted / 2)
    }

    fn tell(&self, states: &[NotifyState<'_>]) {
        let Some(socket) = &self.socket else { return };
        let text: String = states.iter().map(|state| format!("{state}\n")).collect();
        let _ = socket.send(text.as_bytes()); // see the module: the manager may be away
    }
}

/// One line: another would be read as another message.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::kit::Dir;

    fn read(manager: &UnixDatagram) -> String {
        let mut text = [0; 1024];
        let n = manager.recv(&mut text).unwrap();
        String::from_utf8(text[..n].to_vec()).unwrap()
    }

    /// A life as it is told, whatever the socket is called.
    fn live(manager: &UnixDatagram, name: &OsStr) {
        manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let notify = Notify::new(Some(name), Some(Duration::from_secs(20))).unwrap();
        notify.ready("2 routes\nMAINPID=1");
        assert_eq!(read(manager), "READY=1\nSTATUS=2 routes MAINPID=1\n");
        notify.reloading();
        let text = read(manager);
        let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().trim_end();
        assert!(micros.parse::<u64>().unwrap() > 0, "{text}");
        notify.alive();
        assert_eq!(read(manager), "WATCHDOG=1\n");
        notify.stopping("draining");
        assert_eq!(read(manager), "STOPPING=1\nSTATUS=draining\n");
        assert_eq!(notify.watchdog(), Some(Duration::from_secs(10)));
    }

    #[test]
    fn the_manager_hears_of_a_life_over_a_path_and_over_an_abstract_name() {
        let dir = Dir::new("notify");
        let path = dir.path("notify.sock");
        live(&UnixDatagram::bind(&path).unwrap(), path.as_os_str());
        let name = format!("quell-notify-{}", std::process::id());
        let addr = SocketAddr::from_abstract_name(&name).unwrap();
        live(&UnixDatagram::bind_addr(&addr).unwrap(), OsStr::new(&format!("@{name}")));
    }

    #[test]
    fn nobody_to_tell_is_no_trouble_and_neither_is_a_manager_that_went_away() {
        let alone = Notify::new(None, Some(Duration::from_secs(20))).unwrap();
        alone.ready("");
        assert_eq!(alone.watchdog(), None);
        let dir = Dir::new("gone");
        let path = dir.path("notify.sock");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = Notify::new(Some(path.as_os_str()), None).unwrap();
        drop(manager);
        notify.alive();
        assert_eq!(notify.watchdog(), None);
        assert!(Notify::new(Some(dir.path("missing").as_os_str()), None).is_err());
    }
}
