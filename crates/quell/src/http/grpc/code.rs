//! Code: what a gRPC call ended with.

use http::{HeaderMap, StatusCode};

use super::STATUS;
use crate::http::when;

/// One of gRPC's seventeen codes. A number that is none of them is [`Code::UNKNOWN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(u8);

macro_rules! codes {
    ($($name:ident = $number:literal, $status:ident, $doc:literal;)+) => {
        impl Code {
            $(#[doc = $doc] pub const $name: Self = Self($number);)+

            /// The HTTP status that means the same, for policies, logs and metrics know those.
            pub const fn like(self) -> StatusCode {
                match self {
                    $(Self::$name => StatusCode::$status,)+
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                }
            }
        }
    };
}

codes! {
    OK = 0, OK, "All is well.";
    CANCELLED = 1, CONFLICT, "The caller gave up.";
    UNKNOWN = 2, INTERNAL_SERVER_ERROR, "It failed and nobody said why.";
    INVALID_ARGUMENT = 3, BAD_REQUEST, "The request makes no sense.";
    DEADLINE_EXCEEDED = 4, GATEWAY_TIMEOUT, "Time ran out.";
    NOT_FOUND = 5, NOT_FOUND, "There is no such thing.";
    ALREADY_EXISTS = 6, CONFLICT, "It is there already.";
    PERMISSION_DENIED = 7, FORBIDDEN, "The caller may not.";
    RESOURCE_EXHAUSTED = 8, TOO_MANY_REQUESTS, "A quota is spent, or there is too much to do.";
    FAILED_PRECONDITION = 9, BAD_REQUEST, "Something else has to be done first.";
    ABORTED = 10, CONFLICT, "It ran into somebody else's change.";
    OUT_OF_RANGE = 11, BAD_REQUEST, "Past the end.";
    UNIMPLEMENTED = 12, NOT_IMPLEMENTED, "The server does not know the method.";
    INTERNAL = 13, INTERNAL_SERVER_ERROR, "Something is broken.";
    UNAVAILABLE = 14, SERVICE_UNAVAILABLE, "Not now.";
    DATA_LOSS = 15, INTERNAL_SERVER_ERROR, "Data is gone.";
    UNAUTHENTICATED = 16, UNAUTHORIZED, "Nobody knows who the caller is.";
}

impl Code {
    /// The code with this number.
    ///
    /// ```
    /// use quell::{Reason, http::grpc::Code};
    ///
    /// assert_eq!(Code::new(Reason::RateLimited.grpc_code()), Code::RESOURCE_EXHAUSTED);
    /// assert_eq!(Code::new(99), Code::UNKNOWN);
    /// ```
    pub const fn new(number: u8) -> Self {
        if number > Self::UNAUTHENTICATED.0 { Self::UNKNOWN } else { Self(number) }
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The code in a reply's headers or trailers, if one stands there.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(STATUS)?.to_str().unwrap_or_default();
        let number = when::number(text).and_then(|number| u8::try_from(number).ok());
        Some(number.map_or(Self::UNKNOWN, Self::new))
    }

    /// What a reply that is not gRPC's means: by gRPC's own table, but that who says 429 has too much to do and is not
    /// broken.
    pub const fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            400 => Self::INTERNAL,
            401 => Self::UNAUTHENTICATED,
            403 => Self::PERMISSION_DENIED,
            404 => Self::UNIMPLEMENTED,
            429 => Self::RESOURCE_EXHAUSTED,
            502..=504 => Self::UNAVAILABLE,
            _ => Self::UNKNOWN,
        }
    }
}
