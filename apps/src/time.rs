//! Waits on any runtime's clock, and reads and formats times.

use std::future::poll_fn;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use evenkeel_spec::quantity::{self, Unit};
use quinn::Runtime;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest time that an option takes, a day: the longest transfer of the protocol.
const MAX_SECONDS: f64 = 86_400.0;

/// Waits until `at` on the runtime's own clock.
pub(crate) async fn sleep_until(runtime: &dyn Runtime, at: Instant) {
    let mut timer = runtime.new_timer(at);
    poll_fn(|context| timer.as_mut().poll(context)).await;
}

/// Runs `future` for at most `time` on the runtime's own clock; `None` if it takes longer.
pub(crate) async fn timeout<T>(
    runtime: &dyn Runtime,
    time: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = future => Some(done),
        () = sleep_until(runtime, runtime.now() + time) => None,
    }
}

/// Returns milliseconds, exact to the nanosecond, without superfluous digits.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// Reads a time of at most a day.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    within(0.0, MAX_SECONDS)(text)
}

/// Reads a time above 0 of at most a day.
pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    let time = seconds(text)?;
    if time.is_zero() {
        return Err("it must be above 0 seconds".into());
    }
    Ok(time)
}

/// Makes a reader of times from `least` to `most` seconds.
pub(crate) fn within(
    least: f64,
    most: f64,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| {
        let seconds = quantity::time(text, Unit::Seconds).map_err(|error| error.to_string())?;
        if !(least..=most).contains(&seconds) {
            let meant = match text.parse::<f64>() {
                Ok(number) if (least..=most).contains(&(number / 1e3)) => {
                    format!("; write {text}ms for milliseconds")
                }
                _ => String::new(),
            };
            return Err(format!(
                "'{text}' is not between {least} and {most} seconds{meant}"
            ));
        }
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// Serialises durations as whole microseconds.
pub(crate) mod micros {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        micros.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

/// Serialises instants of the calendar as whole microseconds since 1970-01-01T00:00:00Z.
pub(crate) mod micros_since_1970 {
    use serde::de::Error;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        let micros = |time: Duration| i128::try_from(time.as_micros()).unwrap_or(i128::MAX);
        let since = match at.duration_since(UNIX_EPOCH) {
            Ok(after) => micros(after),
            Err(before) => -micros(before.duration()),
        };
        let since = since.clamp(i64::MIN.into(), i64::MAX.into());
        let since = i64::try_from(since).expect("it was clamped");
        since.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let since = i64::deserialize(from)?;
        let time = Duration::from_micros(since.unsigned_abs());
        let at = match since >= 0 {
            true => UNIX_EPOCH.checked_add(time),
            false => UNIX_EPOCH.checked_sub(time),
        };
        at.ok_or_else(|| D::Error::custom("a time that this system does not know"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_time_or_an_error(text in "\\PC{0,30}|-?[0-9]{1,400}(e[0-9]{1,4})?s?") {
            if let Ok(time) = seconds(&text) {
                prop_assert!(time <= Duration::from_secs_f64(MAX_SECONDS));
            }
        }
    }

    #[test]
    fn times_outside_their_range_are_errors() {
        for text in ["", "-1", "nan", "inf", "86401", "1h", "ten"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(seconds("0.5s"), Ok(Duration::from_millis(500)));
        assert!(positive_seconds("0").is_err());
        let interval = within(0.01, 3600.0);
        for text in ["0", "0.009", "3600.1"] {
            assert!(interval(text).is_err(), "{text}");
        }
        assert_eq!(interval("0.01"), Ok(Duration::from_millis(10)));
        assert_eq!(interval("3600"), Ok(Duration::from_secs(3600)));
        let latency = |text| within(0.001, 60.0)(text).unwrap_err();
        assert!(latency("250").ends_with("; write 250ms for milliseconds"));
        assert!(latency("0.0001").ends_with("seconds"));
    }

    #[test]
    fn a_round_trip_time_is_shown_to_the_nanosecond() {
        let time = Duration::from_nanos(40_000_001);
        assert_eq!(milliseconds(time).to_string(), "40.000001");
    }
}
