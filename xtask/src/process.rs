//! A server that lives as long as its measurement, and what it used of the processor.
//!
//! **Why.** A measurement that fails halfway must not leave a server behind, and one that sleeps until "it must be up by
//! now" is wrong on a busy machine. So the child dies with its guard, and its port is asked instead of the clock. Nobody
//! drops a guard when this process is killed: then the kernel ends the child.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::program;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the [module](self).
pub(crate) struct Process {
    name: &'static str,
    child: Child,
}

impl Process {
    /// Starts it and waits until it accepts connections at `port`. It belongs to the thread that starts it.
    pub(crate) fn start(name: &'static str, command: &Command, port: u16) -> Result<Self> {
        Self::start_quietly(name, command, port, Stdio::inherit())
    }

    /// The same; what it complains of goes there.
    pub(crate) fn start_quietly(
        name: &'static str,
        command: &Command,
        port: u16,
        complaints: impl Into<Stdio>,
    ) -> Result<Self> {
        let child = tied(command)?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(complaints)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let mut process = Self { name, child };
        process.wait_for(port)?;
        Ok(process)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Seconds of processor time used so far, by all its threads.
    pub(crate) fn cpu(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(&path)
            .with_context(|| format!("{} is gone: {path} cannot be read", self.name))?;
        let ticks = ticks(&stat).with_context(|| format!("{path} has an unknown form"))?;
        Ok(ticks as f64 / ticks_per_second()?)
    }

    /// KiB of memory that it holds at this moment.
    pub(crate) fn resident_kib(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(&path)
            .with_context(|| format!("{} is gone: {path} cannot be read", self.name))?;
        resident(&status).with_context(|| format!("{path} has an unknown form"))
    }

    /// Asks it to end by itself, and waits until it has: for those who tell what they saw at their end. Where it is a tool that
    /// runs another program, that one is asked.
    pub(crate) fn end(mut self) -> Result<()> {
        let pid = innermost(self.child.id());
        let kill = Command::new("kill").arg(pid.to_string()).status().context("cannot run kill")?;
        ensure!(kill.success(), "{} cannot be told to end", self.name);
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "{} does not end", self.name);
            between_looks();
        }
        Ok(())
    }

    fn wait_for(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(local(port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before it listened ({status})", self.name);
            }
            ensure!(Instant::now() < deadline, "{} does not listen at port {port}", self.name);
            between_looks();
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Failing to end what has already ended is no failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same command, which the kernel ends when the thread that started it is gone, however that came.
pub(crate) fn tied(command: &Command) -> Result<Command> {
    let mut setpriv = Command::new(program::find("setpriv", "util-linux")?);
    setpriv.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
    Ok(setpriv)
}

/// The same command, on one core only.
pub(crate) fn pinned(core: usize, command: &Command) -> Result<Command> {
    let mut taskset = Command::new(program::find("taskset", "util-linux")?);
    taskset.args(["-c", &core.to_string()]).arg(command.get_program()).args(command.get_args());
    Ok(taskset)
}

pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Ports that nobody listens at, each a different one.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(local(0)).context("no free port on loopback")?;
        *port = listener.local_addr()?.port();
        held.push(listener); // until all are drawn, or the same could be drawn twice
    }
    Ok(ports)
}

fn between_looks() {
    #[allow(clippy::disallowed_methods, reason = "between two looks, before a deadline")]
    std::thread::sleep(Duration::from_millis(5));
}

/// The last one of a line of only children.
fn innermost(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let child = children.ok().and_then(|text| text.trim().parse().ok());
    child.map_or(pid, innermost)
}

/// The number in `VmRSS:      456 kB`.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// User and system time, in clock ticks: fields 14 and 15. The name in field 2 may hold anything, brackets too.
fn ticks(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(") ")?.1;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

fn ticks_per_second() -> Result<f64> {
    let output = Command::new("getconf").arg("CLK_TCK").output().context("cannot run getconf")?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().with_context(|| format!("`getconf CLK_TCK` said {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_user_and_system_time_whatever_the_process_is_called() {
        let rest =
            "S 1 7 7 0 -1 4194560 900 0 0 0 250 130 0 0 20 0 2 0 5000 1 2 18446744073709551615";
        for name in ["nginx", "a b", "odd) S 1 2 (name"] {
            assert_eq!(ticks(&format!("7 ({name}) {rest}\n")), Some(380), "{name}");
        }
    }

    #[test]
    fn a_line_that_is_cut_short_is_not_zero() {
        assert_eq!(ticks("7 (nginx) S 1 7 7 0 -1 4194560 900 0 0 0 250"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn memory_is_what_the_kernel_calls_resident() {
        let status = "Name:\tnginx\nVmHWM:\t    9000 kB\nVmRSS:\t    7312 kB\n";
        assert_eq!(resident(status), Some(7312));
        assert_eq!(resident("Name:\tnginx\n"), None);
    }

    #[test]
    fn ports_drawn_together_differ() {
        let [a, b, c] = free_ports().unwrap();
        assert!(a != b && b != c && a != c);
    }

    #[test]
    fn a_server_that_ends_before_it_listens_is_told_by_name() {
        let [port] = free_ports().unwrap();
        let error = Process::start("false", &Command::new("false"), port).err().unwrap();
        assert!(error.to_string().starts_with("false ended before it listened"), "{error}");
    }
}
