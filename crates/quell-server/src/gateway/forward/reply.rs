//! Reply: what an attempt got from its upstream, with what was found out on the way.

use std::ops::Deref;

use http::Response;
use quell::core::Outcome;
use quell::http::ReplyBody;

use crate::gateway::body::FromUpstream;
use crate::gateway::lane::Taken;

/// A reply whose body is still on its way, or kept.
#[derive(Debug)]
pub(in crate::gateway) struct Reply {
    pub(super) response: Response<ReplyBody<FromUpstream>>,
    /// Boxed because hardly any reply has it.
    pub(super) aside: Option<Box<Aside>>,
}

/// The connection of a reply that switches protocols.
pub(in crate::gateway) type Switched = Box<Taken>;

#[derive(Debug)]
pub(super) enum Aside {
    /// What its first bytes came to, where its status does not say.
    Judged(Outcome),
    Switched(Switched),
}

impl Reply {
    /// One whose status says what it came to.
    pub(in crate::gateway) fn new(response: Response<FromUpstream>) -> Self {
        Self { response: response.map(ReplyBody::passing), aside: None }
    }

    /// One whose first bytes said what it came to.
    pub(in crate::gateway) fn judged_as(
        outcome: Outcome,
        response: Response<ReplyBody<FromUpstream>>,
    ) -> Self {
        Self { response, aside: Some(Box::new(Aside::Judged(outcome))) }
    }

    /// One after which the connection speaks another protocol.
    pub(super) fn switching(
        response: Response<ReplyBody<FromUpstream>>,
        connection: Taken,
    ) -> Self {
        Self { response, aside: Some(Box::new(Aside::Switched(Box::new(connection)))) }
    }

    /// What it came to, where its status does not say.
    pub(in crate::gateway) fn judged(&self) -> Option<Outcome> {
        match self.aside.as_deref() {
            Some(Aside::Judged(outcome)) => Some(*outcome),
            _ => None,
        }
    }

    /// The reply alone, and the connection if it switches protocols.
    pub(in crate::gateway) fn into_response(
        self,
    ) -> (Response<ReplyBody<FromUpstream>>, Option<Switched>) {
        let switched = match self.aside.map(|aside| *aside) {
            Some(Aside::Switched(connection)) => Some(connection),
            _ => None,
        };
        (self.response, switched)
    }
}

impl Deref for Reply {
    type Target = Response<ReplyBody<FromUpstream>>;

    fn deref(&self) -> &Self::Target {
        &self.response
    }
}
