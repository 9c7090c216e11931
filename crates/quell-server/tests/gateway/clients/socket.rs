//! As much of a WebSocket server (RFC 6455) as an echo needs.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const CLOSE: u8 = 8;
const LAST: u8 = 0x80;
const MASKED: u8 = 0x80;

/// What a server answers to a key, by which its client knows that it was understood.
pub(super) fn accept(key: &HeaderValue) -> String {
    let text = [key.as_bytes(), b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    base64(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three
            .iter()
            .enumerate()
            .fold(0, |bits, (i, byte)| bits | u32::from(*byte) << (16 - 8 * i));
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Sends back what comes, frame by frame, to the close.
pub(super) async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    loop {
        let Ok([first, second]) = read::<2>(&mut stream).await else { return };
        assert!(second & MASKED != 0, "a client masks its frames");
        let length = match second & !MASKED {
            126 => u64::from(u16::from_be_bytes(read(&mut stream).await.unwrap())),
            127 => u64::from_be_bytes(read(&mut stream).await.unwrap()),
            length => u64::from(length),
        };
        let mask: [u8; 4] = read(&mut stream).await.unwrap();
        let mut payload = vec![0; length.try_into().unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(length as u8),
            length @ 126..0x1_0000 => {
                frame.push(126);
                frame.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                frame.push(127);
                frame.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&payload);
        if stream.write_all(&frame).await.is_err() || first == LAST | CLOSE {
            return;
        }
    }
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[test]
fn the_standards_example_is_accepted() {
    let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!(accept(&key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}
