//! Access log: one JSON line per call, with all of its attempts.
//!
//! **Why.** The last status alone hides everything: which endpoint failed first, how long the call slept, why there was no
//! further attempt. And a log that slows requests down, or holds what nobody may read, is switched off when it is needed.
//!
//! **How.** The host makes a record of each call and hands it over at the call's end. It is a message to one thread that writes;
//! when that thread cannot keep up, lines are dropped and counted. What a record says of the call itself is up to its host; what it
//! says of each [`Attempt`] is the same everywhere.

mod attempt;
mod redact;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::AccessLog;
use parking_lot::Mutex;
use serde::Serialize;

pub(crate) use attempt::{Attempt, HASHED, millis};

use super::trace::Traces;

/// Lines that wait to be written, at most.
const MOST_WAITING: usize = 8 * 1024;
/// How long the end of a process waits for the last lines: whoever reads them may have stopped.
const LAST: Duration = Duration::from_secs(2);
/// How often it is looked whether the file was moved away, to be begun anew.
const LOOK: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Access {
    /// Until the end.
    lines: Option<SyncSender<Vec<u8>>>,
    /// Says that the last line is written.
    done: Mutex<Receiver<()>>,
    /// How many bytes of an error's body are written.
    error_body: usize,
    dropped: AtomicU64,
    /// Where spans go, if they do.
    traces: Option<Traces>,
}

impl Access {
    /// Opens what the file says, if it says anything.
    pub(crate) fn open(
        to: &AccessLog,
        error_body: usize,
        traces: Option<Traces>,
    ) -> io::Result<Option<Arc<Self>>> {
        let sink = match to {
            AccessLog::Off if traces.is_none() => return Ok(None),
            AccessLog::Off => Sink::Nowhere,
            AccessLog::Stdout => Sink::Stdout,
            AccessLog::Stderr => Sink::Stderr,
            AccessLog::File(path) => Sink::File(Rotated::open(path)?),
        };
        let (lines, waiting) = sync_channel(MOST_WAITING);
        let lines = (!matches!(sink, Sink::Nowhere)).then_some(lines);
        let (last, done) = sync_channel(1);
        thread::Builder::new().name("quell-access".into()).spawn(move || {
            write(sink, &waiting);
            let _ = last.send(());
        })?;
        let (done, dropped) = (Mutex::new(done), AtomicU64::new(0));
        Ok(Some(Arc::new(Self { lines, done, error_body, dropped, traces })))
    }

    /// Lines that were not written because too many were waiting.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many bytes of an error's body are written.
    pub(crate) fn error_body(&self) -> usize {
        self.error_body
    }

    /// Where spans go, if they do.
    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.traces.as_ref()
    }

    /// Writes one line, if lines are written at all.
    pub(crate) fn record(&self, record: &impl Serialize) {
        if self.lines.is_some()
            && let Ok(mut line) = serde_json::to_vec(record)
        {
            line.push(b'\n');
            self.send(line);
        }
    }

    fn send(&self, line: Vec<u8>) {
        if self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        self.lines = None;
        let _ = self.done.get_mut().recv_timeout(LAST);
    }
}

/// Writes until nobody can send any more. What cannot be written is nobody's reason to end.
fn write(mut sink: Sink, waiting: &Receiver<Vec<u8>>) {
    while let Ok(first) = waiting.recv() {
        let lines = std::iter::once(first).chain(waiting.try_iter().take(MOST_WAITING));
        let _ = sink.write(lines);
    }
}

enum Sink {
    /// There are only traces.
    Nowhere,
    Stdout,
    Stderr,
    File(Rotated),
}

impl Sink {
    fn write(&mut self, lines: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
        let mut out: BufWriter<Box<dyn Write + '_>> = BufWriter::new(match self {
            Self::Nowhere => return Ok(()),
            Self::Stdout => Box::new(io::stdout().lock()),
            Self::Stderr => Box::new(io::stderr().lock()),
            Self::File(file) => Box::new(file.now()),
        });
        for line in lines {
            out.write_all(&line)?;
        }
        out.flush()
    }
}

/// A file that may be moved away at any time, and is then begun anew.
struct Rotated {
    path: PathBuf,
    file: File,
    looked: Instant,
}

impl Rotated {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: append(path)?, looked: Instant::now() })
    }

    fn now(&mut self) -> &mut File {
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            if let (false, Ok(file)) = (self.is_there(), append(&self.path)) {
                self.file = file;
            }
        }
        &mut self.file
    }

    fn is_there(&self) -> bool {
        let (Ok(ours), Ok(there)) = (self.file.metadata(), fs::metadata(&self.path)) else {
            return false;
        };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::kit::Dir;

    #[test]
    fn lines_that_nobody_writes_are_dropped_and_counted() {
        let ((lines, _stuck), (_, done)) = (sync_channel(2), sync_channel(1));
        let done = Mutex::new(done);
        let access = Access {
            lines: Some(lines),
            done,
            error_body: 0,
            dropped: AtomicU64::new(0),
            traces: None,
        };
        (0..5).for_each(|_| access.send(b"{}\n".to_vec()));
        assert_eq!(access.dropped(), 3);
    }

    #[test]
    fn a_log_that_was_moved_away_is_begun_anew() {
        let dir = Dir::new("rotated");
        let (path, moved) = (dir.path("access.log"), dir.path("access.log.1"));
        let mut log = Rotated::open(&path).unwrap();
        log.now().write_all(b"one\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        log.looked = log.looked.checked_sub(LOOK).unwrap();
        log.now().write_all(b"two\n").unwrap();
        assert_eq!(fs::read(moved).unwrap(), b"one\n");
        assert_eq!(fs::read(path).unwrap(), b"two\n");
    }
}
