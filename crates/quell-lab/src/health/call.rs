//! One call: what it asks for, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep, timeout};

use super::body::Paced;
use super::dice::Dice;
use super::link::{Broken, Line, Links};
use super::service::{EVENTS, FAILS_ONCE, REPLY, SERVED, STATUS, WORK};
use super::tally::End;
use super::world::{Flow, Wire};

/// How long anybody may wait, beyond what the work takes. Who waits longer was not answered.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// All that is random about a call, drawn before it is made.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    id: u64,
    work: Duration,
    leaves: Option<Duration>,
    fails_once: bool,
    pace: usize,
}

impl Script {
    pub(crate) fn draw(flow: &Flow, id: u64, at: Duration, dice: &mut Dice) -> Self {
        let leaves = flow.leave.filter(|leave| dice.chance(leave.share));
        let (slow, fast) = flow.upload.map_or((1, 1), |upload| upload.pace);
        Self {
            id,
            work: flow.work.at(at, dice),
            leaves: leaves.map(|leave| dice.between(leave.after.0, leave.after.1)),
            fails_once: dice.chance(flow.fails_once),
            pace: slow + (fast.saturating_sub(slow) as f64 * dice.unit()) as usize,
        }
    }
}

/// One of a hundred names, none of which looks like an id.
fn name(id: u64) -> String {
    let letter = |n: u64| char::from(b'g' + (n % 10) as u8);
    format!("page{}{}", letter(id / 10), letter(id))
}

/// Makes the call and says how it ended.
pub(crate) async fn make(flow: &Flow, links: &Arc<Links>, script: &Script) -> End {
    let line = match timeout(PATIENCE, links.take()).await {
        Ok(Ok(line)) => line,
        Ok(Err(why)) => return lost(why),
        Err(_) => return lost("connect"),
    };
    let exchange = exchange(flow, links, script, line);
    match script.leaves {
        Some(after) => timeout(after, exchange).await.unwrap_or(End::Left),
        None => timeout(PATIENCE, exchange).await.unwrap_or_else(|_| lost("unanswered")),
    }
}

async fn exchange(flow: &Flow, links: &Arc<Links>, script: &Script, mut line: Line) -> End {
    let mut sent = Instant::now();
    let mut reply = match request(flow, script) {
        Ok(request) => line.send(request).await,
        Err(_) => return lost("no such request"),
    };
    // Never sent, because the peer closed an idle connection just then.
    if let Err(error) = &reply
        && error.is_canceled()
        && let (Ok(again), Ok(request)) = (links.take().await, request(flow, script))
    {
        (line, sent) = (again, Instant::now());
        reply = line.send(request).await;
    }
    let reply = match reply {
        Ok(reply) => reply,
        Err(_) => return lost("connection broke"),
    };
    let (status, fields) = (reply.status(), reply.headers().clone());
    if read(reply.into_body(), flow.reads, sent).await.is_err() {
        return lost("reply broke");
    }
    links.keep(line);
    match judge(flow.status, status, &fields) {
        End::Well if script.fails_once => End::Mended,
        end => end,
    }
}

/// Whether this is the answer that was to come.
fn judge(wanted: u16, status: StatusCode, fields: &HeaderMap) -> End {
    let served = fields.contains_key(SERVED);
    if served && status.as_u16() == wanted {
        return End::Well;
    }
    let stop = fields.get("quell-stop").and_then(|reason| reason.to_str().ok());
    match (served, stop) {
        (false, Some(reason)) => lost(reason),
        (false, None) => End::Lost(format!("{} of the proxy", status.as_u16())),
        (true, _) => End::Lost(format!("{} of the service", status.as_u16())),
    }
}

pub(crate) fn lost(why: &str) -> End {
    End::Lost(why.into())
}

fn request(flow: &Flow, script: &Script) -> Result<Request<Paced>, http::Error> {
    let path = flow.path.replace("{id}", &script.id.to_string());
    let path = path.replace("{name}", &name(script.id));
    // HTTP/1.1 sends what is written here as it is; HTTP/2 makes its own fields of the whole.
    let whole = matches!(flow.wire, Wire::Http2(_));
    let mut request = Request::builder()
        .uri(if whole { format!("http://lab.test{path}") } else { path })
        .header(WORK, script.work.as_micros().to_string())
        .header(REPLY, flow.reply)
        .header(STATUS, flow.status);
    if !whole {
        request = request.header(header::HOST, "lab.test");
    }
    if let Some(credential) = flow.credential {
        request = request.header(header::AUTHORIZATION, credential);
    }
    if script.fails_once {
        request = request.header(FAILS_ONCE, script.id);
    }
    if let Some((count, apart)) = flow.events {
        request = request.header(EVENTS, format!("{count},{}", apart.as_millis()));
        request = request.header(header::ACCEPT, "text/event-stream");
    }
    match flow.upload {
        Some(upload) => request.method(Method::POST).body(Paced::upload(upload.bytes, script.pace)),
        None => request.body(Paced::at_once(0)),
    }
}

/// Reads a reply to its end, as fast as it comes or no faster than so many bytes per second.
async fn read(mut body: Incoming, pace: Option<usize>, begin: Instant) -> Result<(), Broken> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "reply")?;
        bytes += frame.data_ref().map_or(0, bytes::Bytes::len);
        if let Some(pace) = pace {
            let due = Duration::from_secs_f64(bytes as f64 / pace as f64);
            sleep(due.saturating_sub(begin.elapsed())).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(of: &[(&'static str, &'static str)]) -> HeaderMap {
        of.iter()
            .map(|(n, v)| (http::HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect()
    }

    #[test]
    fn only_the_services_own_answer_is_well() {
        let served = fields(&[(SERVED, "yes")]);
        assert_eq!(judge(200, StatusCode::OK, &served), End::Well);
        assert_eq!(judge(500, StatusCode::INTERNAL_SERVER_ERROR, &served), End::Well);
        assert_eq!(
            judge(200, StatusCode::SERVICE_UNAVAILABLE, &served),
            lost("503 of the service")
        );
        assert_eq!(judge(200, StatusCode::BAD_GATEWAY, &fields(&[])), lost("502 of the proxy"));
        let stopped = fields(&[("quell-stop", "queue_full")]);
        assert_eq!(judge(200, StatusCode::SERVICE_UNAVAILABLE, &stopped), lost("queue_full"));
    }
}
