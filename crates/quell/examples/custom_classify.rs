//! Replies and errors of one's own, and what they mean to retries: `cargo run -p quell --example custom_classify`.

use std::{collections::VecDeque, error::Error, fmt, time::Duration};

use quell::{Failure, Fault, Outcome, Quell, Reason};

/// What the seat service says. None of it is an HTTP status, so nobody but us can tell what it means.
#[derive(Debug, PartialEq)]
enum Seat {
    Booked(u32),
    SoldOut,
    Busy { come_back: Duration },
}

#[derive(Debug)]
enum Wire {
    Refused,
    Garbled,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "no connection",
            Self::Garbled => "an answer nobody can read",
        })
    }
}

impl Error for Wire {}

/// The whole knowledge in one place, as a table.
fn classify(result: &Result<Seat, Wire>) -> Outcome {
    Outcome::Failed(match result {
        // "Sold out" is an answer, too: the service did its work, and asking again will not make seats.
        Ok(Seat::Booked(_) | Seat::SoldOut) => return Outcome::Success,
        // Too much to do: nobody comes back sooner than told, and the breaker does not count it as broken.
        Ok(Seat::Busy { come_back }) => Failure::of(Fault::Overload).with_hint(*come_back),
        // Nothing was sent, so even what must not be done twice may be tried again.
        Err(Wire::Refused) => Failure::of(Fault::Connect),
        // It would answer the same again.
        Err(Wire::Garbled) => Failure::of(Fault::Fatal),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let seats = Quell::upstream("seats").attempts(3).build()?;
    let hint = Duration::from_millis(300);

    // The service answers from a script; what was waited for is noted.
    let book = |script: Vec<Result<Seat, Wire>>| {
        let (mut script, mut waits) = (VecDeque::from(script), Vec::new());
        let booked = seats
            .call_blocking(|attempt| {
                let _key = attempt.key(); // sent along, so that a seat is booked once
                script.pop_front().unwrap_or(Err(Wire::Refused))
            })
            .operation("book a seat")
            .classify(classify)
            .on_retry(|retry| waits.push(retry.delay))
            .wait();
        (booked, waits)
    };

    let (booked, waits) =
        book(vec![Err(Wire::Refused), Ok(Seat::Busy { come_back: hint }), Ok(Seat::Booked(7))]);
    println!("{:?} after waits of {waits:?}", booked.as_ref().ok());
    assert_eq!(booked?, Seat::Booked(7));
    assert!(waits.len() == 2 && waits[1] >= hint, "not before the service asked for: {waits:?}");

    let (booked, waits) = book(vec![Ok(Seat::SoldOut)]);
    println!("{:?} at the first attempt", booked.as_ref().ok());
    assert_eq!((booked?, waits.len()), (Seat::SoldOut, 0));

    let (booked, waits) = book(vec![Err(Wire::Garbled)]);
    let Err(error) = booked else { return Err("garbage was taken for a seat".into()) };
    println!("{error}");
    assert_eq!((error.attempts(), error.reason(), waits.len()), (1, Reason::NotRetryable, 0));
    Ok(())
}
