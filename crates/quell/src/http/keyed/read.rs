//! Read: the whole body of a request with a key, which is part of what makes two of them the same.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;

use crate::http::pool::{Pool, Reserved, in_one_piece};

/// The longest body of a request with a key.
pub const LONGEST: usize = 1024 * 1024;

/// A body that was read whole. It takes its part of a [`Pool`] until it is dropped.
pub struct Whole {
    pub(in crate::http) bytes: Bytes,
    pub(in crate::http) reserved: Reserved,
}

/// Why a body was not read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// It is longer than [`LONGEST`].
    #[error("a body with an Idempotency-Key may have 1 MiB")]
    TooLong,
    /// The pool has no room for it.
    #[error("there is no room to keep the body")]
    NoRoom,
    /// It broke off.
    #[error("the body broke off")]
    Broken,
}

impl Whole {
    /// Reads a body of at most 1 MiB. Memory is taken as its bytes come, not as they are announced.
    pub async fn read<B: Body + Unpin>(mut body: B, pool: &Pool) -> Result<Self, Unread> {
        if body.size_hint().lower() > LONGEST as u64 {
            return Err(Unread::TooLong);
        }
        let (mut bytes, mut reserved) = (BytesMut::new(), Reserved::of(pool));
        while let Some(frame) = body.frame().await {
            let frame = in_one_piece(frame.map_err(|_| Unread::Broken)?);
            let Some(data) = frame.data_ref() else { continue };
            if data.len() > LONGEST - bytes.len() {
                return Err(Unread::TooLong);
            }
            if !reserved.grow(data.len(), LONGEST) {
                return Err(Unread::NoRoom);
            }
            bytes.extend_from_slice(data);
        }
        Ok(Self { bytes: bytes.freeze(), reserved })
    }

    /// All of it.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl std::fmt::Debug for Whole {
    /// Without its bytes, which are nobody's business.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Whole").field("length", &self.bytes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn a_keyed_body_is_bounded_by_itself_and_by_the_pool() {
        let pool = Pool::new(LONGEST + 7);
        let read = |length| Whole::read(Full::new(Bytes::from(vec![7; length])), &pool);
        assert_eq!(read(LONGEST + 1).await.unwrap_err(), Unread::TooLong);
        let whole = read(LONGEST).await.unwrap();
        assert_eq!((whole.bytes().len(), pool.used()), (LONGEST, LONGEST));
        assert_eq!(read(8).await.unwrap_err(), Unread::NoRoom);
        assert_eq!(pool.used(), LONGEST);
        assert!(read(7).await.is_ok());
        drop(whole);
        assert_eq!(pool.used(), 0);
    }
}
