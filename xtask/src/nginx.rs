//! nginx, in the foreground, with a file and a folder of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::program;

/// nginx with this inside its `http`. One process without a master, which is one worker: to measure it and to end it
/// takes one pid.
pub(crate) fn command(folder: &Path, server: &str) -> Result<Command> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let config = folder.join("nginx.conf");
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {kind};"))
        .join(" ");
    let text = format!(
        "daemon off; master_process off; worker_processes 1; pid nginx.pid; error_log /dev/null crit;
         events {{ worker_connections 8192; }}
         http {{
             access_log off; keepalive_timeout 65s; keepalive_requests 1000000000; {temporary}
             {server}
         }}\n"
    );
    fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    let mut nginx = Command::new(program::find("nginx", "nginx")?);
    nginx.arg("-p").arg(folder).args(["-e", "stderr", "-c"]).arg(&config);
    Ok(nginx)
}
