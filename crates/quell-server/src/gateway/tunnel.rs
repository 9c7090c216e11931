//! Tunnels: after a 101 both sides speak something else, and bytes go to and fro until one has enough.

use tokio::io::{AsyncWriteExt, copy_bidirectional};

use super::io::Io;

/// A connection that HTTP has let go of, and what was read from it already.
pub(super) type Raw = quell_http1::Raw<Io>;

/// Carries bytes both ways until both have ended, or one has broken.
pub(super) async fn carry(mut caller: Raw, mut upstream: Raw) {
    // How it ends is the business of those who talk.
    let _ = async {
        upstream.io.write_all(&caller.ahead).await?;
        caller.io.write_all(&upstream.ahead).await?;
        caller.io.flush().await?;
        upstream.io.flush().await?;
        copy_bidirectional(&mut caller.io, &mut upstream.io).await
    }
    .await;
}
