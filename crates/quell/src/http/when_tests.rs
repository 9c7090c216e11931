use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// H1.
#[test]
fn durations_with_units_are_read_to_the_nanosecond_and_never_short() {
    let cases = [
        ("1s", SECOND),
        ("6m0s", 360 * SECOND),
        ("20ms", Duration::from_millis(20)),
        ("1h2m3.5s", 3_723 * SECOND + Duration::from_millis(500)),
        ("2m59.56s", 179 * SECOND + Duration::from_millis(560)),
        ("0s", Duration::ZERO),
        ("1us", Duration::from_micros(1)),
        ("1.5ns", Duration::from_nanos(2)),
        ("0.0000000000000000000000001s", Duration::from_nanos(1)),
    ];
    for (text, expected) in cases {
        assert_eq!(units(text), Some(expected), "{text:?}");
    }
}

#[test]
fn what_is_no_duration_was_not_said() {
    for text in ["", "s", "1", "0", "1 s", "-1s", "+1s", "1d", "1sec", "1s2", ".s", "1.s", ".5s"] {
        assert_eq!(units(text), None, "{text:?}");
    }
    for text in ["1..5s", "1.5.5s", "1s ", "soon", "1S", "1m-1s", "١s"] {
        assert_eq!(units(text), None, "{text:?}");
    }
}

#[test]
fn absurd_durations_are_for_ever() {
    for text in ["99999999999999999999h", "9999999999999999999999999999999ns1h"] {
        assert!(units(text) > Some(SECOND * 86_400 * 365), "{text:?}");
    }
}

/// H1.
#[test]
fn dates_of_rfc_3339_are_read_in_every_zone() {
    let at = |text: &str| rfc3339(text, Duration::ZERO);
    let cases = [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1994-11-06 08:49:37Z", 784_111_777),
        ("1994-11-06T09:49:37+01:00", 784_111_777),
        ("1994-11-06T03:19:37-05:30", 784_111_777),
        ("2000-02-29T00:00:00Z", 951_782_400),
        ("2024-02-29T23:59:60Z", 1_709_251_200),
        ("2024-12-01T12:00:00Z", 1_733_054_400),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
        ("1969-12-31T23:59:59Z", 0),
        ("0000-01-01T00:00:00Z", 0),
    ];
    for (text, seconds) in cases {
        assert_eq!(at(text), Some(Duration::from_secs(seconds)), "{text:?}");
    }
    assert_eq!(at("1970-01-01T00:00:01.25Z"), Some(Duration::from_millis(1_250)));
    assert_eq!(rfc3339("1970-01-01T00:00:09Z", 8 * SECOND), Some(SECOND));
    assert_eq!(rfc3339("1970-01-01T00:00:09Z", 10 * SECOND), Some(Duration::ZERO));
}

#[test]
fn what_is_no_date_was_not_said() {
    let garbage = [
        "",
        "1994-11-06",
        "1994-11-06T08:49:37",
        "1994-11-06T08:49Z",
        "1994-13-06T08:49:37Z",
        "1994-00-06T08:49:37Z",
        "1994-11-31T08:49:37Z",
        "1900-02-29T08:49:37Z",
        "1994-11-00T08:49:37Z",
        "1994-11-06T24:00:00Z",
        "1994-11-06T08:60:00Z",
        "1994-11-06T08:49:61Z",
        "1994-11-06T08:49:37.Z",
        "1994-11-06T08:49:37.5",
        "1994-11-06T08:49:37+0100",
        "1994-11-06T08:49:37+24:00",
        "1994-11-06T08:49:37ZZ",
        "1994/11/06T08:49:37Z",
        "1994-11-06T08.49.37Z",
        "-994-11-06T08:49:37Z",
        "784111777",
        "199é-11-06T08:49:37Z",
    ];
    for text in garbage {
        assert_eq!(rfc3339(text, Duration::ZERO), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_readers_of_times(text: String, now: u64) {
        let now = Duration::from_secs(now);
        let _ = (units(&text), rfc3339(&text, now), http_date(&text, now));
        let _ = (milliseconds(&text), seconds(&text));
    }

    #[test]
    fn nearly_dates_and_durations_break_nothing(
        date in "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]{8}[.0-9]{0,30}([Zz]|[+-][0-9:]{5})",
        duration in "([0-9.]{1,40}(h|m|s|ms|us|ns)){1,4}",
    ) {
        let _ = (rfc3339(&date, Duration::ZERO), units(&duration));
    }

    /// Against the calendar that HTTP's dates are read with.
    #[test]
    fn both_calendars_agree(seconds in 0_u64..253_402_300_800) {
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let month = months.iter().position(|name| *name == &date[8..11]).unwrap() + 1;
        let text = format!("{}-{month:02}-{}T{}Z", &date[12..16], &date[5..7], &date[17..25]);
        prop_assert_eq!(rfc3339(&text, Duration::ZERO), Some(Duration::from_secs(seconds)));
    }
}
