//! What the programs of a flow report, collected into its observation.

use std::ops::Range;
use std::time::{Duration, Instant};

use evenkeel::HeaderCounters;
use evenkeel_apps::path::{HeaderReport, SampleRecord};
use evenkeel_apps::stream::{SentCounts, ViewReport};

use super::process::Line;
use super::records::{ReceiverInterval, Record, SenderInterval, parse};
use crate::metrics::{
    Arrived, ControllerSample, FlowObservation, PacketSample, PathObservation, RttSample,
    StreamObservation, StreamSample, Transfer,
};
use crate::scenario::{FlowSpec, Scenario};

/// What a flow's programs have reported so far. Times are since the run's beginning.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// What the controller had decided at the end of the last interval.
    pub(super) controller: Option<ControllerSample>,
    sent: u64,
    lost: u64,
    /// The time at which each interval of a sender ended, and its packets.
    packets: Vec<(Duration, PacketSample)>,
    rtt: Vec<RttSample>,
    headers: Option<HeaderReport>,
    path: Vec<SampleRecord>,
    received: Vec<Received>,
    pub(super) transfers: Vec<Transfer>,
    /// The time at which each interval of a viewer ended, and what it saw.
    viewed: Vec<(Duration, StreamSample)>,
    view: Option<ViewReport>,
    frames: SentCounts,
    /// The first failure.
    failure: Option<(Duration, String)>,
    /// When all was delivered.
    pub(super) done: Option<Duration>,
}

/// What a receiver got in one of its intervals.
#[derive(Debug)]
struct Received {
    /// When its record came, and how long the interval was.
    at: Duration,
    length: Duration,
    ip_bytes: u64,
    app_bytes: u64,
}

impl Received {
    /// When the interval was, in seconds of the run.
    fn time_s(&self) -> Range<f64> {
        let end = self.at.as_secs_f64();
        let length = self.length.as_secs_f64().max(1e-6);
        (end - length).max(0.0)..end
    }

    /// The share of the interval that lies in a time.
    fn share(&self, time_s: &Range<f64>) -> f64 {
        let Range { start, end } = self.time_s();
        let overlap = end.min(time_s.end) - start.max(time_s.start);
        (overlap / (end - start).max(1e-6)).clamp(0.0, 1.0)
    }
}

/// A program whose lines are read, and what its earlier lines said.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    /// The transfer that it carries out, if it is a bulk client.
    pub(super) transfer: Option<usize>,
    /// Path headers at the end of the last interval.
    headers: HeaderCounters,
}

impl Reporter {
    pub(super) fn of_transfer(number: usize) -> Self {
        Self {
            transfer: Some(number),
            ..Self::default()
        }
    }
}

impl Reports {
    /// Takes in a line of a flow's program. Returns whether it says that a transfer is complete.
    pub(super) fn take(
        &mut self,
        line: &Line,
        epoch: Instant,
        scenario: &Scenario,
        spec: &FlowSpec,
        reporter: &mut Reporter,
    ) -> bool {
        let at = line.at.saturating_duration_since(epoch);
        match parse(line) {
            Record::Interval { interval, frames } => {
                // After the end of the run the routers are gone.
                if at.saturating_sub(interval.length()) < scenario.duration {
                    self.frames = frames.unwrap_or(self.frames);
                    self.take_sent(interval, at, scenario.warmup, &mut reporter.headers);
                }
            }
            Record::ServerInterval(interval) => self.take_received(&interval, at, spec),
            Record::TcpReceived(interval) => self.received.push(Received {
                at,
                length: interval.length(),
                ip_bytes: interval.ip_bytes,
                app_bytes: interval.bytes,
            }),
            Record::TcpDone { bytes } => {
                if let Some(number) = reporter.transfer {
                    let transfer = &mut self.transfers[number];
                    (transfer.end, transfer.bytes) = (Some(at), bytes);
                }
                return true;
            }
            Record::Result {
                interrupted: false,
                outcome: Some(outcome),
            } => {
                if let Some(number) = reporter.transfer {
                    let transfer = &mut self.transfers[number];
                    transfer.end = Some(at);
                    transfer.bytes = outcome.receiver.bytes;
                    transfer.sha256_verified = spec.verify.then_some(outcome.verified);
                }
                return true;
            }
            Record::Viewer { error, frames } => {
                self.frames = frames;
                self.controller = None;
                error.into_iter().for_each(|error| self.fail(at, error));
            }
            Record::View { error, report } => {
                self.view = report;
                error.into_iter().for_each(|error| self.fail(at, error));
            }
            Record::Listening { .. } | Record::Result { .. } | Record::Other => {}
        }
        false
    }

    /// Notes when and why the flow failed first.
    pub(super) fn fail(&mut self, at: Duration, reason: String) {
        self.failure.get_or_insert((at, reason));
    }

    /// A sender's interval that ended `at`; its path headers were `before` at the end of the one
    /// before.
    fn take_sent(
        &mut self,
        interval: SenderInterval,
        at: Duration,
        warmup: Duration,
        before: &mut HeaderCounters,
    ) {
        let is_measured = at > warmup;
        self.controller = Some(ControllerSample {
            window: interval.window_bytes,
            slow_start_threshold: interval.slow_start_threshold_bytes,
            pacing_rate: interval.pacing_rate_bps.map(|bits| bits / 8),
        });
        if let Some(path) = interval.path {
            let new = path.counts.since(std::mem::replace(before, path.counts));
            let counted = self.headers.as_ref().map(|headers| headers.counts);
            let mut counts = counted.unwrap_or_default();
            if is_measured {
                counts = counts.plus(new);
            }
            self.headers = Some(HeaderReport { counts, ..path });
        }
        // They are as long before the line as before the interval's end.
        let origin_s = at.as_secs_f64() - interval.end_s;
        let samples = interval.path_samples.into_iter();
        self.path.extend(samples.map(|sample| SampleRecord {
            at_s: (origin_s + sample.at_s).max(0.0),
            ..sample
        }));
        let (sent, lost) = (interval.packets_sent, interval.packets_lost);
        self.packets.push((at, PacketSample { sent, lost }));
        if is_measured {
            self.sent += sent;
            self.lost += lost;
        }
        let samples = interval.rtt_samples_ms.iter();
        self.rtt.extend(samples.map(|ms| RttSample {
            at,
            rtt: Duration::from_secs_f64(ms / 1e3),
        }));
    }

    fn take_received(&mut self, interval: &ReceiverInterval, at: Duration, spec: &FlowSpec) {
        let headers = spec.ip_version.header_bytes() as u64 * interval.udp_datagrams_received;
        self.received.push(Received {
            at,
            length: interval.length(),
            ip_bytes: interval.udp_bytes_received + headers,
            app_bytes: interval.bytes_received,
        });
        let sample = StreamSample {
            delay_ms: interval.delay_ms,
            bitrate_bps: interval.bitrate_bps,
        };
        self.viewed.push((at, sample));
    }

    /// The observation of the flow, with the decisions of its controller in each interval.
    pub(super) fn observation(
        &mut self,
        spec: &FlowSpec,
        interval: Duration,
        controller_state: Vec<Option<ControllerSample>>,
    ) -> FlowObservation {
        let buckets = controller_state.len();
        let spread = |bytes| spread(&self.received, interval, buckets, bytes);
        let mut transfers = std::mem::take(&mut self.transfers);
        if let [only] = &mut transfers[..]
            && only.end.is_none()
        {
            only.bytes = self.received.iter().map(|one| one.app_bytes).sum();
        }
        let path = self.headers.take().map(|headers| PathObservation {
            headers,
            samples: std::mem::take(&mut self.path),
        });
        let stream = self.view.take().map(|report| StreamObservation {
            report,
            sent: self.frames,
            series: in_intervals(&self.viewed, interval, buckets, |_, last| last),
        });
        let mut observation = FlowObservation {
            stop: self.done.unwrap_or(spec.stop),
            delivered: spread(|received| received.ip_bytes),
            app_delivered: spread(|received| received.app_bytes),
            packet_series: in_intervals(&self.packets, interval, buckets, PacketSample::plus),
            controller_state,
            rtt: std::mem::take(&mut self.rtt),
            path,
            sent_packets: self.sent,
            lost_packets: self.lost,
            transfers,
            stream,
            ..FlowObservation::of(spec)
        };
        let end = interval * buckets as u32;
        if let Some((at, reason)) = self.failure.take() {
            // What a program says of its end comes a little after the run's.
            observation.failed(spec, at.min(end), reason);
        }
        let (stop, width) = (observation.stop, interval.as_nanos());
        // What was done had come before.
        if self.done != Some(stop) && stop < end && !stop.as_nanos().is_multiple_of(width) {
            let begin = interval * (stop.as_nanos() / width) as u32;
            let arrived = |bytes| {
                between(
                    &self.received,
                    begin.as_secs_f64()..stop.as_secs_f64(),
                    bytes,
                )
            };
            observation.until_stop = Some(Arrived {
                ip_bytes: arrived(|received| received.ip_bytes).round() as u64,
                app_bytes: arrived(|received| received.app_bytes).round() as u64,
            });
        }
        observation
    }
}

/// Shares out what came in intervals of the receiver's own to the run's intervals, by overlap.
fn spread(
    received: &[Received],
    interval: Duration,
    buckets: usize,
    bytes: fn(&Received) -> u64,
) -> Vec<u64> {
    let mut shares = vec![0.0; buckets];
    let width = interval.as_secs_f64();
    for record in received {
        let Range { start, end } = record.time_s();
        let (first, last) = ((start / width) as usize, (end / width) as usize);
        let touched = shares.iter_mut().enumerate().take(last + 1).skip(first);
        for (bucket, share) in touched {
            let bucket = bucket as f64 * width..(bucket + 1) as f64 * width;
            *share += bytes(record) as f64 * record.share(&bucket);
        }
    }
    let rounded = shares.into_iter().map(|share: f64| share.round() as u64);
    rounded.collect()
}

/// What came in a time, in seconds of the run, by overlap.
fn between(received: &[Received], time_s: Range<f64>, bytes: fn(&Received) -> u64) -> f64 {
    let shares = received.iter();
    shares
        .map(|record| bytes(record) as f64 * record.share(&time_s))
        .sum()
}

/// What was reported, in the run's intervals; `join` makes one of two in the same interval.
fn in_intervals<T: Copy + Default>(
    reported: &[(Duration, T)],
    interval: Duration,
    buckets: usize,
    join: fn(T, T) -> T,
) -> Vec<T> {
    let mut series = vec![T::default(); buckets];
    for (at, sample) in reported {
        // A record comes a little after the end of the interval that it is about.
        let within = at.saturating_sub(interval / 2);
        let bucket = (within.as_nanos() / interval.as_nanos()) as usize;
        if let Some(entry) = series.get_mut(bucket) {
            *entry = join(*entry, *sample);
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(end_ms: u64, length_ms: u64, bytes: u64) -> Received {
        Received {
            at: Duration::from_millis(end_ms),
            length: Duration::from_millis(length_ms),
            ip_bytes: bytes,
            app_bytes: bytes / 2,
        }
    }

    #[test]
    fn bytes_are_shared_out_by_overlap_and_none_is_lost() {
        let records = [received(150, 100, 1000), received(260, 110, 1100)];
        let shares = spread(&records, Duration::from_millis(100), 3, |r| r.ip_bytes);
        // 50..150 ms: half and half. 150..260 ms: 50 ms and 60 ms of 110.
        assert_eq!(shares, [500, 1000, 600]);
    }

    #[test]
    fn what_came_until_a_stop_is_the_overlap_with_the_time_before_it() {
        let records = [received(150, 100, 1000), received(260, 110, 1100)];
        // 100..150 ms of the first, 150..170 ms of the second.
        let came = between(&records, 0.1..0.17, |received| received.ip_bytes);
        assert_eq!(came.round(), 700.0);
    }

    #[test]
    fn packets_belong_to_the_interval_whose_record_comes_a_little_late() {
        let packets = |sent, lost| PacketSample { sent, lost };
        let ms = Duration::from_millis;
        let reported = [
            (ms(104), packets(9, 1)),
            (ms(201), packets(5, 0)),
            (ms(208), packets(2, 2)),
            (ms(900), packets(1, 1)),
        ];
        let series = in_intervals(&reported, ms(100), 3, PacketSample::plus);
        assert_eq!(series, [packets(9, 1), packets(7, 2), packets(0, 0)]);
    }

    #[test]
    fn what_came_before_the_run_or_after_it_does_not_count() {
        let records = [received(50, 100, 1000), received(900, 100, 1000)];
        let shares = spread(&records, Duration::from_millis(100), 2, |r| r.ip_bytes);
        assert_eq!(shares.iter().sum::<u64>(), 1000);
    }
}
