use proptest::prelude::*;

use super::*;

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(*name, HeaderValue::from_static(value));
    }
    map
}

fn outgoing(attempt: u32, ms: u64, credit: u32) -> Outgoing {
    let left = Some(Duration::from_millis(ms));
    Outgoing { attempt, left, credit: Some(Retries::new(credit)) }
}

/// H6.
#[test]
fn a_stamp_leaves_nothing_of_the_attempt_before() {
    let mut headers = map(&[("accept", "*/*"), ("baggage", "user=7, quell-retry-credit=9")]);
    headers.append(BAGGAGE, HeaderValue::from_static("quell-retry-credit=8,tier=gold"));
    headers.append(DEADLINE, HeaderValue::from_static("77"));
    headers.append(DEADLINE, HeaderValue::from_static("78"));
    stamp(&mut headers, outgoing(1, 900, 2));
    stamp(&mut headers, outgoing(2, 300, 1));
    let expected = [
        ("accept", "*/*"),
        ("baggage", "user=7,tier=gold,quell-retry-credit=1"),
        ("quell-deadline-ms", "300"),
        ("quell-attempt", "2"),
        ("quell-retry-credit", "1"),
    ];
    assert_eq!(headers, map(&expected));
    stamp(&mut headers, Outgoing { left: None, ..outgoing(3, 0, 0) });
    assert_eq!(headers.get(DEADLINE), None);
    assert_eq!(headers[CREDIT], "0");
}

#[test]
fn what_an_application_forwards_stays_where_there_is_no_credit_of_ours() {
    let forwarded = [("baggage", "quell-retry-credit=1"), ("quell-retry-credit", "1")];
    let mut headers = map(&forwarded);
    stamp(&mut headers, Outgoing { attempt: 1, left: None, credit: None });
    let expected = [forwarded[0], forwarded[1], ("quell-attempt", "1")];
    assert_eq!(headers, map(&expected));
}

#[test]
fn a_baggage_that_is_too_long_is_passed_on_as_it_is() {
    let long = HeaderValue::try_from("x".repeat(LONGEST_BAGGAGE)).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(BAGGAGE, long.clone());
    stamp(&mut headers, outgoing(1, 1, 1));
    assert_eq!((&headers[BAGGAGE], &headers[CREDIT]), (&long, &number(1)));
}

#[test]
fn silence_and_garbage_are_one_send_and_no_credit() {
    assert_eq!(Told::read(&HeaderMap::new()), Told::default());
    for garbage in ["", "many", "-1", "1.5"] {
        let headers = map(&[("quell-attempts", garbage), ("quell-retry-credit", garbage)]);
        assert_eq!(Told::read(&headers), Told::default(), "{garbage:?}");
    }
    let headers = map(&[
        ("quell-attempts", "2"),
        ("quell-attempts", "5"),
        ("quell-retry-credit", "3"),
        ("quell-retry-credit", "1"),
        ("quell-retry", "no"),
    ]);
    let told = Told { sends: Sends::new(5), returned: Retries::new(1), word: Some(Word::No) };
    assert_eq!(Told::read(&headers), told);
}

/// H6, on the way back.
#[test]
fn an_answer_replaces_what_the_upstream_said_of_itself() {
    let mut headers = map(&[
        ("quell-attempts", "7"),
        ("quell-stop", "budget_empty"),
        ("quell-retry-credit", "7"),
        ("retry-after", "9"),
        ("x-other", "1"),
    ]);
    answer(&mut headers, Answer::after(Sends::new(2)));
    let passed = [("retry-after", "9"), ("x-other", "1"), ("quell-attempts", "2")];
    assert_eq!(headers, map(&passed));

    let wait = Some(Duration::from_millis(4_001));
    let credit = Some(Retries::new(4));
    let stopped = |is_ours| Answer::stopped(Sends::new(3), Reason::NotBefore, wait, is_ours);
    answer(&mut headers, Answer { credit, ..stopped(false) });
    let expected = [
        ("quell-attempts", "3"),
        ("quell-retry-credit", "4"),
        ("quell-retry", "after=5"),
        ("quell-stop", "not_before"),
        ("retry-after", "9"),
        ("x-other", "1"),
    ];
    assert_eq!(headers, map(&expected));
    answer(&mut headers, stopped(true));
    assert_eq!(headers[RETRY_AFTER], "5");
}

#[test]
fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
    let cases = [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (1_999, 2), (2_000, 2)];
    for (ms, seconds) in cases {
        assert_eq!(whole_seconds(Duration::from_millis(ms)), seconds, "{ms} ms");
    }
    assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
}

#[test]
fn a_full_map_is_no_panic() {
    let mut headers = HeaderMap::new();
    for n in 0..40_000 {
        let name = HeaderName::try_from(format!("x-{n}")).unwrap();
        if headers.try_insert(name, HeaderValue::from_static("1")).is_err() {
            break;
        }
    }
    stamp(&mut headers, outgoing(1, 1, 1));
    answer(&mut headers, Answer::stopped(Sends::new(1), Reason::Shed, None, true));
}

proptest! {
    /// H6: however many attempts there were.
    #[test]
    fn the_last_stamp_alone_is_on_the_request(
        attempts in prop::collection::vec((1_u32..200, 0_u64..100_000, 0_u32..200), 1..6),
        baggage in "[ -~]{0,80}",
    ) {
        let mut base = HeaderMap::new();
        base.insert(BAGGAGE, HeaderValue::try_from(baggage).unwrap());
        let (mut all, mut last) = (base.clone(), base);
        for &(attempt, ms, credit) in &attempts {
            stamp(&mut all, outgoing(attempt, ms, credit));
        }
        let &(attempt, ms, credit) = attempts.last().unwrap();
        stamp(&mut last, outgoing(attempt, ms, credit));
        prop_assert_eq!(all, last);
    }

    #[test]
    fn no_bytes_in_a_reply_break_what_is_told(bytes: Vec<u8>) {
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            let mut headers = HeaderMap::new();
            for name in [ATTEMPTS, CREDIT, RETRY, BAGGAGE] {
                headers.append(name, value.clone());
            }
            let told = Told::read(&headers);
            prop_assert!(told.sends <= Sends::new(100) && told.returned <= Retries::new(100));
            stamp(&mut headers, outgoing(1, 1, 1));
        }
    }
}
