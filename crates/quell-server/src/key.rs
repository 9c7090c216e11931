//! Keys of tenants: `quell key new`, and the hash that stands for a key.
//!
//! **Why.** A gateway has to recognise its callers, and a file that holds their keys is a file that loses them. So it holds
//! hashes, and nobody who reads file, environment or memory can call in a tenant's name.
//!
//! **How.** A key is 256 bits of chance, and its hash is plain SHA-256. Slow hashes are for passwords, which can be guessed:
//! they make each guess dear, and each request too. Nobody guesses 256 bits however cheap a guess is, so here a slow hash
//! would protect nothing and hand strangers a way to burn our CPU. That holds for keys made by chance and for no others,
//! which is why short ones are refused.
//!
//! ```
//! use quell_server::key::Hash;
//!
//! let kept: Hash = Hash::of(b"qk_0123").to_string().parse()?;
//! assert!(kept.to_string().starts_with("sha256:"));
//! assert!(bool::from(kept.is(&Hash::of(b"qk_0123"))));
//! assert!(!bool::from(kept.is(&Hash::of(b"qk_0124"))));
//! # Ok::<_, quell_server::key::NoHash>(())
//! ```

use std::fmt::{self, Write as _};
use std::io::Read;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// How keys made here begin, so that people and secret scanners know one when they see it.
pub const PREFIX: &str = "qk_";
/// No key is longer.
pub const LONGEST: usize = 512;
/// A shorter key might be guessed.
const SHORTEST: usize = 32;

/// Makes the keys by which a gateway knows its tenants.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Makes a key, shows it once, and says what to put where
    New {
        /// Whose key it is: the name in [tenant.NAME]
        #[arg(long, value_name = "NAME", default_value = "caller", value_parser = tenant)]
        tenant: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Reads a key from standard input and prints its hash
    Hash,
}

fn tenant(text: &str) -> Result<String, String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !text.is_empty() && text.len() <= 64 && text.bytes().all(legal) {
        return Ok(text.to_owned());
    }
    Err("write 1 to 64 letters, digits, - and _, such as shop".to_owned())
}

/// The hash of a key.
#[derive(Clone, Copy)]
pub struct Hash([u8; 32]);

/// A text that is no hash. It may be a key by mistake, so it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write `sha256:` and 64 hexadecimal digits, as `quell key new` and `quell key hash` print")]
pub struct NoHash;

impl Hash {
    /// That of a key.
    pub fn of(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// Whether both are of the same key, found out in the same time whatever the answer.
    pub fn is(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl FromStr for Hash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        let digits = text.strip_prefix("sha256:").ok_or(NoHash)?.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return Err(NoHash);
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(NoHash);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Ok(Self(hash))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

/// Says nothing of the key, but need not be in every log either.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(..)")
    }
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::New { tenant, json } => {
            let mut chance = [0; 32];
            getrandom::fill(&mut chance).context("the system has no chance to give")?;
            let key = format!("{PREFIX}{}", hex(&chance));
            print!("{}", show(&key, tenant, *json));
        }
        Command::Hash => println!("{}", read(std::io::stdin())?),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(key: &str, tenant: &str, json: bool) -> String {
    let hash = Hash::of(key.as_bytes());
    let env = format!("{}_KEY_HASH", tenant.to_ascii_uppercase().replace('-', "_"));
    if json {
        let shown = serde_json::json!({
            "tenant": tenant, "key": key, "hash": hash.to_string(), "env": env,
        });
        return format!("{shown}\n");
    }
    format!(
        "\
Give this key to the caller. It is shown once and kept nowhere:

  {key}

The caller sends it as `authorization: Bearer …` or `x-api-key: …`.
Put its hash in the environment of the gateway:

  {env}={hash}

and say so in the config file:

  [tenant.{tenant}]
  keys = [\"env:{env}\"]
"
    )
}

/// The hash of the key that somebody writes, without the line break at its end.
fn read(from: impl Read) -> anyhow::Result<Hash> {
    let mut text = String::new();
    // No more than it takes to see that it is too long.
    from.take(LONGEST as u64 + 3).read_to_string(&mut text).context("cannot read the key")?;
    let key = text.trim_end_matches(['\r', '\n']);
    match key.len() {
        0 => bail!("there is no key: write it to standard input"),
        1..SHORTEST => bail!(
            "the key is shorter than {SHORTEST} characters and might be guessed: take one from `quell key new`"
        ),
        SHORTEST..=LONGEST if key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Hash::of(key.as_bytes()))
        }
        SHORTEST..=LONGEST => bail!("the key has characters that no header can carry"),
        _ => bail!("the key is longer than {LONGEST} characters"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_hash_is_sha256_and_reads_back_in_either_case() {
        assert_eq!(Hash::of(b"").to_string(), EMPTY);
        let digits = EMPTY.strip_prefix("sha256:").unwrap().to_ascii_uppercase();
        let read: Hash = format!("sha256:{digits}").parse().unwrap();
        assert_eq!(read.to_string(), EMPTY);
    }

    #[test]
    fn what_is_no_hash_is_refused_and_not_repeated() {
        let short = &EMPTY[..EMPTY.len() - 1];
        let strange = EMPTY.replace('e', "é");
        for text in ["", "sha256:", short, strange.as_str(), "qk_secret", "md5:00", &EMPTY[7..]] {
            let error = text.parse::<Hash>().unwrap_err();
            assert!(!error.to_string().contains("secret"), "{text}");
        }
        assert_eq!(format!("{:?}", Hash::of(b"")), "Hash(..)");
    }

    #[test]
    fn a_key_from_outside_is_hashed_without_its_line_break_unless_it_could_be_guessed() {
        let key = "0123456789abcdef0123456789abcdef";
        let hash = Hash::of(key.as_bytes()).to_string();
        assert_eq!(read(format!("{key}\r\n").as_bytes()).unwrap().to_string(), hash);
        for wrong in ["", "\n", "hunter2", &"é".repeat(40), &"x".repeat(513), &" ".repeat(40)] {
            let message = read(wrong.as_bytes()).unwrap_err().to_string();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn what_is_printed_fits_into_the_file_as_it_is() {
        let text = show("qk_1", "my-shop", false);
        assert!(text.contains("MY_SHOP_KEY_HASH=sha256:"), "{text}");
        let (_, file) = text.split_once("config file:").unwrap();
        let file = format!("version = 1\n{file}");
        let config = crate::config::Config::parse("t", &file, &[]).unwrap();
        assert_eq!(config.tenants["my-shop"].keys[0].to_string(), "env:MY_SHOP_KEY_HASH");
    }
}
