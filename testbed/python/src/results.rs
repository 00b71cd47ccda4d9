//! Results as arrays. An array that has one type in Rust and Python is handed over, not copied.

use evenkeel_testbed::metrics::Observations;
use evenkeel_testbed::report::{self, FlowSeries, LinkSeries, ResultDocument, Series};
use evenkeel_testbed::scenario::Scenario;
use numpy::{Element, IntoPyArray};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The results of a run: `result`, the text of result.json; `series` of `flows` and `links` by
/// name, and `interval_s`; `samples` of flows by name.
pub(crate) fn of(
    py: Python<'_>,
    scenario: &Scenario,
    observations: Observations,
) -> PyResult<Py<PyDict>> {
    let (document, series) = py.detach(|| {
        let document = ResultDocument::new(scenario, "sim", &observations);
        (
            report::json(&document),
            Series::new(scenario, &observations),
        )
    });
    let (flows, links) = (PyDict::new(py), PyDict::new(py));
    for flow in series.flows {
        flows.set_item(flow.name.clone(), of_flow(py, flow)?.0)?;
    }
    for link in series.links {
        links.set_item(link.name.clone(), of_link(py, link)?.0)?;
    }
    let samples = PyDict::new(py);
    for flow in observations.flows {
        let of_flow = PyDict::new(py);
        let mut acks = Arrays::new(py);
        let rtts = flow.rtt.iter();
        acks.put(
            "at_s",
            rtts.clone().map(|rtt| rtt.at.as_secs_f64()).collect(),
        )?;
        acks.put(
            "rtt_ms",
            rtts.map(|rtt| rtt.rtt.as_secs_f64() * 1e3).collect(),
        )?;
        of_flow.set_item("acks", acks.0)?;
        let mut headers = Arrays::new(py);
        let seen = flow.path.map(|path| path.samples).unwrap_or_default();
        let seen = seen.iter();
        headers.put("at_s", seen.clone().map(|one| one.at_s).collect())?;
        headers.put("rtt_ms", seen.clone().map(|one| one.rtt_ms).collect())?;
        let queueing = seen.clone().map(|one| one.forward_queueing_ms);
        headers.put("forward_queueing_ms", floats(queueing))?;
        let queueing = seen.clone().map(|one| one.backward_queueing_ms);
        headers.put("backward_queueing_ms", floats(queueing))?;
        headers.put("complete", seen.clone().map(|one| one.complete).collect())?;
        let grant = seen.clone().map(|one| one.grant_bps.map(|bps| bps as f64));
        headers.put("grant_bps", floats(grant))?;
        let change = seen.clone().map(|one| one.window_change_bytes);
        headers.put("window_change_bytes", floats(change))?;
        headers.put("congested", seen.clone().map(|one| one.congested).collect())?;
        headers.put("flows", floats(seen.map(|one| one.flows.map(f64::from))))?;
        of_flow.set_item("headers", headers.0)?;
        let mut transfers = Arrays::new(py);
        let all = flow.transfers.iter();
        transfers.put(
            "start_s",
            all.clone().map(|one| one.start.as_secs_f64()).collect(),
        )?;
        let end = all.clone().map(|one| one.end.map(|end| end.as_secs_f64()));
        transfers.put("end_s", floats(end))?;
        transfers.put("bytes", all.map(|one| one.bytes as i64).collect())?;
        of_flow.set_item("transfers", transfers.0)?;
        if let Some(log) = flow.packets {
            let mut packets = Arrays::new(py);
            packets.put("sent_s", log.sent_s)?;
            packets.put("arrived_s", log.arrived_s)?;
            let bytes = log.bytes.into_iter().map(|bytes| bytes as i32);
            packets.put("bytes", bytes.collect())?;
            packets.put("queueing_ms", log.queueing_ms)?;
            packets.put("marked", log.marked)?;
            of_flow.set_item("packets", packets.0)?;
        }
        samples.set_item(flow.name, of_flow)?;
    }
    let all = PyDict::new(py);
    all.set_item("result", document)?;
    all.set_item("interval_s", series.interval_s)?;
    all.set_item("flows", flows)?;
    all.set_item("links", links)?;
    all.set_item("samples", samples)?;
    Ok(all.unbind())
}

fn of_flow<'py>(py: Python<'py>, flow: FlowSeries) -> PyResult<Arrays<'py>> {
    let mut arrays = Arrays::new(py);
    arrays.put("rate_bps", counts(flow.rate_bps))?;
    arrays.put("goodput_bps", counts(flow.goodput_bps))?;
    arrays.put("rtt_ms", floats(flow.rtt_ms))?;
    arrays.put("rtt_max_ms", floats(flow.rtt_max_ms))?;
    arrays.put("one_way_ms", floats(flow.one_way_ms))?;
    arrays.put("one_way_max_ms", floats(flow.one_way_max_ms))?;
    arrays.put("sent_packets", counts(flow.sent_packets))?;
    arrays.put("lost_packets", counts(flow.lost_packets))?;
    arrays.put("window_bytes", wholes(flow.window_bytes))?;
    arrays.put(
        "slow_start_threshold_bytes",
        wholes(flow.slow_start_threshold_bytes),
    )?;
    arrays.put("pacing_rate_bps", wholes(flow.pacing_rate_bps))?;
    if let Some(path) = flow.path {
        let path = path.series;
        arrays.put("path.forward_queueing_ms", floats(path.forward_queueing_ms))?;
        arrays.put(
            "path.backward_queueing_ms",
            floats(path.backward_queueing_ms),
        )?;
        arrays.put("path.grant_bps", wholes(path.grant_bps))?;
        arrays.put(
            "path.flows",
            floats(path.flows.into_iter().map(|n| n.map(f64::from))),
        )?;
    }
    if let Some(stream) = flow.stream {
        arrays.put("stream.delay_ms", floats(stream.delay_ms))?;
        arrays.put("stream.bitrate_bps", wholes(stream.bitrate_bps))?;
    }
    Ok(arrays)
}

fn of_link<'py>(py: Python<'py>, link: LinkSeries) -> PyResult<Arrays<'py>> {
    let mut arrays = Arrays::new(py);
    arrays.put("rate_bps", counts(link.rate_bps))?;
    arrays.put("capacity_bps", wholes(link.capacity_bps))?;
    arrays.put("queue_packets", counts(link.queue_packets))?;
    arrays.put("queue_packets_max", counts(link.queue_packets_max))?;
    arrays.put("dropped", counts(link.dropped))?;
    for (stamp, figures) in link.stamps {
        for (figure, values) in figures {
            arrays.put(&format!("stamps.{stamp}.{figure}"), floats(values))?;
        }
    }
    Ok(arrays)
}

/// Arrays by name.
struct Arrays<'py>(Bound<'py, PyDict>);

impl<'py> Arrays<'py> {
    fn new(py: Python<'py>) -> Self {
        Self(PyDict::new(py))
    }

    /// Hands the values over to Python without a copy.
    fn put<T: Element>(&mut self, name: &str, values: Vec<T>) -> PyResult<()> {
        self.0.set_item(name, values.into_pyarray(self.0.py()))
    }
}

/// Counts and rates with a sign, in place: differences of unsigned numbers surprise people.
fn counts(values: Vec<u64>) -> Vec<i64> {
    values.into_iter().map(|value| value as i64).collect()
}

fn floats(values: impl IntoIterator<Item = Option<f64>>) -> Vec<f64> {
    let values = values.into_iter();
    values.map(|value| value.unwrap_or(f64::NAN)).collect()
}

fn wholes(values: Vec<Option<u64>>) -> Vec<f64> {
    floats(
        values
            .into_iter()
            .map(|value| value.map(|value| value as f64)),
    )
}
