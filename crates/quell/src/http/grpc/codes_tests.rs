use bytes::Bytes;
use http::Response;
use http_body::Frame;
use http_body_util::Full;
use quell_core::{Delivery, Reason};

use super::*;

const STATUS: &str = "grpc-status";

type Reply = Response<Peeked<Full<Bytes>>>;

fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn trailers_only(said: &[(&'static str, &str)]) -> Reply {
    let mut reply = Response::new(Peeked::passing(Full::default()));
    *reply.headers_mut() = fields(said);
    reply
}

fn trailers(said: &[(&'static str, &str)]) -> Reply {
    let trailers = Frame::trailers(fields(said));
    Response::new(Peeked::read(Some(Ok(trailers)), Full::default()))
}

fn by(codes: Codes, reply: &Reply) -> Outcome {
    codes.classify(reply.status(), reply.headers(), reply.body(), Duration::ZERO)
}

fn classify(reply: &Reply) -> Outcome {
    by(Codes::default(), reply)
}

fn failed(reply: &Reply) -> Failure {
    let Outcome::Failed(failure) = classify(reply) else { panic!("{reply:?}") };
    failure
}

#[test]
fn every_code_means_the_same_wherever_it_stands() {
    for code in 0..=20 {
        let said = [(STATUS, &*code.to_string())];
        for reply in [trailers_only(&said), trailers(&said)] {
            let (retryable, bad) = match code {
                0 => {
                    assert_eq!(classify(&reply), Outcome::Success);
                    continue;
                }
                14 => (true, true),
                8 => (true, false),
                2 | 4 | 12 | 13 | 15 | 17.. => (false, true),
                _ => (false, false),
            };
            let failure = failed(&reply);
            assert_eq!((failure.retryable, failure.bad), (retryable, bad), "{code}");
            assert_eq!(classify(&reply).is_served(), !bad && !retryable, "{code}");
            assert_ne!(failure.delivery, Delivery::NeverSent, "{code}");
        }
    }
}

#[test]
fn a_reply_that_is_not_grpc_means_what_grpcs_table_says() {
    for (status, retryable, bad) in [
        (429, true, false),
        (503, true, true),
        (502, true, true),
        (500, false, true),
        (403, false, false),
    ] {
        let mut reply = Response::new(Peeked::passing(Full::new(Bytes::from("<html>"))));
        *reply.status_mut() = StatusCode::from_u16(status).unwrap();
        let failure = failed(&reply);
        assert_eq!((failure.retryable, failure.bad), (retryable, bad), "{status}");
    }
}

#[test]
fn a_message_is_a_success_and_a_reply_without_any_status_is_not() {
    let message = Frame::data(Bytes::from("pens"));
    assert_eq!(
        classify(&Response::new(Peeked::read(Some(Ok(message)), Full::default()))),
        Outcome::Success
    );
    assert_eq!(classify(&Response::new(Peeked::passing(Full::default()))), Outcome::Success);
    let silent = failed(&Response::new(Peeked::read(None, Full::default())));
    assert_eq!((silent.retryable, silent.bad), (false, true));
    assert!(!failed(&trailers(&[])).retryable);
}

/// H2.
#[test]
fn a_pushback_is_a_wait_or_a_stop_in_headers_and_in_trailers() {
    for reply in [trailers_only, trailers] {
        let with =
            |pushback| failed(&reply(&[(STATUS, "14"), ("grpc-retry-pushback-ms", pushback)]));
        let later = with("250");
        assert_eq!((later.hint, later.bad), (Some(Duration::from_millis(250)), false));
        assert_eq!(later.allows_another(), Ok(()));
        for garbage in ["-1", "soon", ""] {
            assert_eq!(with(garbage).allows_another(), Err(Reason::ToldNotTo), "{garbage:?}");
            assert!(with(garbage).bad);
        }
        let fatal = failed(&reply(&[(STATUS, "3"), ("grpc-retry-pushback-ms", "250")]));
        assert_eq!(fatal.allows_another(), Err(Reason::NotRetryable));
        assert_eq!(fatal.hint, None);
    }
    let mut both = trailers(&[(STATUS, "14"), ("grpc-retry-pushback-ms", "250")]);
    both.headers_mut().insert("grpc-retry-pushback-ms", "-1".parse().unwrap());
    assert_eq!(failed(&both).allows_another(), Err(Reason::ToldNotTo));
}

#[test]
fn the_word_of_a_hop_in_between_counts_beside_the_servers_own_status() {
    let with = |word: &'static str| {
        let mut reply = trailers(&[(STATUS, "14")]);
        reply.headers_mut().insert("quell-retry", word.parse().unwrap());
        failed(&reply)
    };
    assert_eq!(with("no").allows_another(), Err(Reason::ToldNotTo));
    assert_eq!(with("after=3").hint, Some(Duration::from_secs(3)));
}

#[test]
fn another_list_of_codes_makes_others_worth_it() {
    let aborted = trailers(&[(STATUS, "10")]);
    assert!(!classify(&aborted).is_retryable());
    assert!(by(Codes::of([Code::ABORTED]), &aborted).is_retryable());
}
