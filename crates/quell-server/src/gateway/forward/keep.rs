//! Keep: a failed reply, off its connection, while the call sleeps before its next attempt.

use http::Response;
use http_body::Body as _;
use quell::core::Time;
use quell::http::Pool;
use tokio::select;

use super::{Failed, Outgoing, Reply};

impl Outgoing<'_> {
    pub(super) async fn keep(
        &self,
        reply: Result<Reply, Failed>,
        by: Time,
    ) -> Result<Result<Reply, Failed>, Result<Reply, Failed>> {
        let Reply { response, aside } = match reply {
            Ok(reply) => reply,
            Err(failed) => return Ok(Err(failed)),
        };
        let (parts, body) = response.into_parts();
        let with = |body| Reply { response: Response::from_parts(parts, body), aside };
        let mut keep = body.keep(Pool::global());
        select! {
            biased;
            kept = &mut keep => match kept {
                // It broke off: nobody could be given the whole of it.
                Ok(whole) if whole.size_hint().exact().is_none() => {
                    return Ok(Err(Failed::Broken("its body broke off".into())));
                }
                Ok(whole) => {
                    if let Some(line) = self.line {
                        line.error(&whole.ahead(line.most_of_error()));
                    }
                    return Ok(Ok(with(whole)));
                }
                Err(long) => return Err(Ok(with(long))),
            },
            () = self.clock().sleep_until(by) => {}
        }
        Err(Ok(with(keep.give_up())))
    }
}
