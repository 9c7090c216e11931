//! Broken: how a connection, or a message on it, comes to an early end.

/// What is wrong with a message, or with the connection that it came on.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It ended in the middle.
    #[error("the connection ended in the middle of a message")]
    Ended,
    /// What came is no HTTP.
    #[error("{0}")]
    Garbled(&'static str),
    /// The body belongs to a request that is over.
    #[error("the request is over")]
    Over,
}
