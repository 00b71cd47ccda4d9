//! Scenarios made by a program: the keys of scenario files as method calls.

use std::time::Duration;

use evenkeel::{Controllers, Pacing};
use toml::Table;
pub use toml::Value;

use super::{Scenario, ScenarioError};

/// Makes a [`Scenario`] without a file: see [`Scenario::builder`].
///
/// It writes a scenario file and reads that, so the same keys, defaults and checks hold
/// (`docs/scenarios.md`). What has no method here has its key: `set`.
#[derive(Debug, Clone)]
#[must_use]
pub struct ScenarioBuilder {
    top: Table,
    controllers: Controllers,
}

/// A `[[links]]` table: two one-way links.
#[derive(Debug, Clone)]
#[must_use]
pub struct LinkBuilder(Table);

/// A `[[flows]]` table.
#[derive(Debug, Clone)]
#[must_use]
pub struct FlowBuilder(Table);

impl Scenario {
    /// A scenario that a program makes: it lasts `duration`, and needs at least a link and a flow.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use evenkeel_testbed::backend::sim;
    /// use evenkeel_testbed::scenario::{FlowBuilder, LinkBuilder, Scenario};
    ///
    /// let scenario = Scenario::builder("two-flows", Duration::from_secs(5))
    ///     .link(
    ///         LinkBuilder::between("link", "client", "server")
    ///             .rate_bps(2_000_000)
    ///             .delay(Duration::from_millis(20))
    ///             .queue_packets(20),
    ///     )
    ///     .flow(FlowBuilder::bulk("smooth", "vegas").between("client", "server"))
    ///     .flow(
    ///         FlowBuilder::bulk("late", "reno")
    ///             .between("client", "server")
    ///             .start(Duration::from_secs(2))
    ///             .set("ack_every", 1),
    ///     )
    ///     .build()?;
    /// let observations = sim::run(&scenario, &sim::Options::default(), |_| ())?;
    /// assert_eq!(observations.flows[1].name, "late");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(name: &str, duration: Duration) -> ScenarioBuilder {
        let mut top = Table::new();
        put(&mut top, "name", name);
        put(&mut top, "duration_s", duration.as_secs_f64());
        ScenarioBuilder {
            top,
            controllers: crate::controllers(),
        }
    }
}

impl ScenarioBuilder {
    /// Adds a link, after those that are there.
    pub fn link(self, link: LinkBuilder) -> Self {
        self.add("links", link.0)
    }

    /// Adds a flow, or a group of them, after those that are there.
    pub fn flow(self, flow: FlowBuilder) -> Self {
        self.add("flows", flow.0)
    }

    /// Leaves the run's first `time` out of all averages.
    pub fn warmup(self, time: Duration) -> Self {
        self.set("warmup_s", time.as_secs_f64())
    }

    /// Sets the seed of every random choice, at most 2^63 - 1; 1 by default.
    pub fn seed(self, seed: i64) -> Self {
        self.set("seed", seed)
    }

    /// Lets flows name `controllers` instead of the testbed's own.
    pub fn controllers(mut self, controllers: &Controllers) -> Self {
        self.controllers = controllers.clone();
        self
    }

    /// Sets any key of a scenario file's top level: `topology`, `mtu`, or a table such as
    /// `sampling` or `access`.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        put(&mut self.top, key, value);
        self
    }

    /// Checks and expands what was built. Files that it names are looked for in the current
    /// directory.
    ///
    /// # Errors
    /// One line that names the key and what would be right.
    pub fn build(self) -> Result<Scenario, ScenarioError> {
        let text = toml::to_string(&self.top).expect("keys and values are TOML");
        Scenario::parse_with(&text, "built scenario", &[], &self.controllers)
    }

    fn add(mut self, key: &str, table: Table) -> Self {
        append(&mut self.top, key, table);
        self
    }
}

impl LinkBuilder {
    /// A link of a dumbbell or a chain (`topology`), which says where its ends are.
    pub fn new(name: &str) -> Self {
        Self(Table::new()).set("name", name)
    }

    /// A link between two nodes, which exist by being named.
    pub fn between(name: &str, from: &str, to: &str) -> Self {
        Self::new(name).set("from", from).set("to", to)
    }

    /// Limits the rate, 1 to 10^12 bits of IP packets per second.
    pub fn rate_bps(self, bits_per_second: u64) -> Self {
        self.set("rate_bps", whole(bits_per_second))
    }

    /// Sets the propagation delay, at most 600 s.
    pub fn delay(self, delay: Duration) -> Self {
        self.set("delay_ms", delay.as_secs_f64() * 1e3)
    }

    /// Lets this many packets wait; 100 by default.
    pub fn queue_packets(self, packets: u32) -> Self {
        self.set("queue_packets", packets)
    }

    /// Loses this share of the packets at random, 0 to 1.
    pub fn loss(self, share: f64) -> Self {
        self.set("loss", share)
    }

    /// Loses everything from `start` on for `length`; blackouts come in order.
    pub fn blackout(self, start: Duration, length: Duration) -> Self {
        let mut blackout = Table::new();
        put(&mut blackout, "start_s", start.as_secs_f64());
        put(&mut blackout, "length_s", length.as_secs_f64());
        self.append("blackouts", blackout)
    }

    /// Sets `key` to `value` from `at` on: a rate, a delay, a loss or a limit; changes come in
    /// order.
    pub fn change(self, at: Duration, key: &str, value: impl Into<Value>) -> Self {
        let mut change = Table::new();
        put(&mut change, "at_s", at.as_secs_f64());
        put(&mut change, key, value);
        self.append("changes", change)
    }

    /// Stamps passing path headers, such as `["aqt", "flows:period_ms=10"]`.
    pub fn stamps(self, stamps: &[&str]) -> Self {
        self.set("stamps", stamps.to_vec())
    }

    /// Sets any key of `[[links]]`, for both directions.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        put(&mut self.0, key, value);
        self
    }

    /// Sets any key of `[links.reverse]`, for the way back.
    pub fn set_reverse(mut self, key: &str, value: impl Into<Value>) -> Self {
        let reverse = self.0.entry("reverse").or_insert(Table::new().into());
        if let Value::Table(reverse) = reverse {
            put(reverse, key, value);
        }
        self
    }

    fn append(mut self, key: &str, table: Table) -> Self {
        append(&mut self.0, key, table);
        self
    }
}

impl FlowBuilder {
    /// One transfer, as fast as `controller` lets it, until the flow stops.
    pub fn bulk(name: &str, controller: &str) -> Self {
        Self(Table::new())
            .set("name", name)
            .set("app", "bulk")
            .set("controller", controller)
    }

    /// One transfer over the kernel's own TCP with the kernel's `controller` (`cubic`, `reno`,
    /// `bbr`), until the flow stops. It needs a backend on a kernel.
    pub fn tcp(name: &str, controller: &str) -> Self {
        Self::bulk(name, controller).set("app", "tcp")
    }

    /// Sets the nodes of sender and receiver.
    pub fn between(self, from: &str, to: &str) -> Self {
        self.set("from", from).set("to", to)
    }

    /// Lets this many such flows run, at most 2000.
    pub fn count(self, count: u32) -> Self {
        self.set("count", count)
    }

    /// Sets when the first one starts, since the run's beginning.
    pub fn start(self, at: Duration) -> Self {
        self.set("start_s", at.as_secs_f64())
    }

    /// Sets when all of them stop.
    pub fn stop(self, at: Duration) -> Self {
        self.set("stop_s", at.as_secs_f64())
    }

    /// Ends the transfer after this many bytes of application data.
    pub fn bytes(self, bytes: u64) -> Self {
        self.set("bytes", whole(bytes))
    }

    /// Sets who spreads packets; the controller's rate by default.
    pub fn pacing(self, pacing: Pacing) -> Self {
        self.set("pacing", pacing.name())
    }

    /// Sets any key of `[[flows]]`.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        put(&mut self.0, key, value);
        self
    }
}

fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

/// Adds `table` to the array of tables at `key`.
fn append(tables: &mut Table, key: &str, table: Table) {
    let array = tables.entry(key).or_insert(Value::Array(Vec::new()));
    if let Value::Array(array) = array {
        array.push(Value::Table(table));
    }
}

/// A number as TOML has it; all ranges end far below its greatest.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> LinkBuilder {
        LinkBuilder::between("l", "a", "b").rate_bps(1_000_000)
    }

    #[test]
    fn what_is_built_is_what_a_file_with_the_same_keys_says() {
        let text = "name = 's'\nduration_s = 2.5\nseed = 7\nwarmup_s = 1\n\
             [[links]]\nname = 'l'\nfrom = 'a'\nto = 'b'\nrate_bps = 1000000\ndelay_ms = 1.5\n\
             queue_packets = 9\nloss = 0.1\nstamps = ['aqt']\nreverse = { loss = 0.2 }\n\
             blackouts = [{ start_s = 1, length_s = 0.5 }]\n\
             changes = [{ at_s = 1, delay_ms = 3 }, { at_s = 2, rate_bps = 500000 }]\n\
             [[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'reno'\nfrom = 'a'\nto = 'b'\n\
             count = 2\nstart_s = 0.5\nstop_s = 2\nbytes = 12\npacing = 'none'\nverify = true\n";
        let built = Scenario::builder("s", Duration::from_millis(2500))
            .seed(7)
            .warmup(Duration::from_secs(1))
            .link(
                link()
                    .delay(Duration::from_micros(1500))
                    .queue_packets(9)
                    .loss(0.1)
                    .stamps(&["aqt"])
                    .blackout(Duration::from_secs(1), Duration::from_millis(500))
                    .change(Duration::from_secs(1), "delay_ms", 3)
                    .change(Duration::from_secs(2), "rate_bps", 500_000)
                    .set_reverse("loss", 0.2),
            )
            .flow(
                FlowBuilder::bulk("f", "reno")
                    .between("a", "b")
                    .count(2)
                    .start(Duration::from_millis(500))
                    .stop(Duration::from_secs(2))
                    .bytes(12)
                    .pacing(Pacing::Unpaced)
                    .set("verify", true),
            )
            .build()
            .expect("a scenario");
        let read = Scenario::parse(text, "s.toml", &[]).expect("the same");
        assert_eq!(built.to_toml(), read.to_toml());
        assert_eq!((built.links, built.flows), (read.links, read.flows));
    }

    #[test]
    fn a_wrong_key_or_value_is_an_error_of_one_line_that_names_it() {
        let built = |flow: FlowBuilder| {
            let scenario = Scenario::builder("s", Duration::from_secs(1)).link(link());
            scenario.flow(flow.between("a", "b")).build()
        };
        for (flow, word) in [
            (
                FlowBuilder::bulk("f", "reno").set("start_s", "soon"),
                "start_s",
            ),
            (
                FlowBuilder::bulk("f", "reno").set("colour", "red"),
                "colour",
            ),
            (FlowBuilder::bulk("f", "reno").set("streams", 0), "streams"),
        ] {
            let error = built(flow).expect_err("it is wrong").to_string();
            assert!(error.contains(word), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
