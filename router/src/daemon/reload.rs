//! Takes over a changed configuration while packets go on.

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use evenkeel_queue::Change;
use tokio::task::yield_now;
use tracing::{debug, error, info};

use super::{Line, Router, build};
use crate::clock;
use crate::config::{Config, LinkSpec};
use crate::failure::Failure;
use crate::netlink::Netlink;
use crate::plumbing::Plumbing;
use crate::preflight;
use crate::status::Meter;
use crate::transit::Transit;

/// A configuration with its tables, and what becomes of its links, by their position.
type Prepared = (Config, Vec<Fate>);

/// What becomes of a link.
enum Fate {
    /// Packets notice nothing.
    Same,
    /// It goes on, and changes.
    Altered(Vec<Change>),
    /// It is made anew.
    Anew(Box<Transit>),
}

impl Router {
    /// Reads the configuration again and makes what has changed so, or says in the log what is in the
    /// way. Links are known by their names; those that did not change notice nothing.
    ///
    /// # Errors
    /// What is in the way, a line for each cause; then nothing has changed.
    pub(super) async fn reload(&self) -> Result<(), Failure> {
        let _alone = self.reloading.lock().await;
        let reloaded = async {
            let (config, fates) = self.prepare(Config::load(&self.path)?).await?;
            self.take_over(config, fates).await
        };
        reloaded.await.map_err(|error| {
            let said = "nothing has been reloaded: ";
            error!("{said}{}", error.causes().join("; "));
            error.beginning_with(said)
        })
    }

    /// Finds out whether a reload would take over the configuration in a file; changes nothing.
    ///
    /// # Errors
    /// As [`reload`](Self::reload). A file that the router may not read is one more.
    pub(super) async fn check(&self, path: &Path) -> Result<(), Failure> {
        let config = Config::load_or(path, |source| {
            let (path, own) = (path.display(), self.path.display());
            Failure::new(format!(
                "the running router cannot read {path}: {source}; put the file beside its \
                 configuration, {own}"
            ))
        })?;
        let _alone = self.reloading.lock().await;
        self.prepare(config).await.map(drop)
    }

    /// Makes what a configuration needs besides changes of the host: the links that are new or
    /// cannot change while they go on.
    async fn prepare(&self, mut config: Config) -> Result<Prepared, Failure> {
        let before = self.config.borrow().clone();
        let tables = before.links.iter();
        let tables: Vec<_> = tables.map(|link| (&link.name[..], link.table)).collect();
        keep_tables(&tables, &mut config);
        let running = before.links.iter().map(|link| link.tun.clone());
        let running: BTreeSet<_> = running.collect();
        let mut problems = fixed(&before, &config);
        let asked = config.clone();
        let examine = move |_: &mut _| {
            let mut netlink = Netlink::open().map_err(Failure::system("netlink"))?;
            preflight::examine(&asked, &running, &mut netlink)
        };
        problems.extend(self.plumber.ask(examine).await.err());
        Failure::of(problems)?;

        let now = clock::now();
        let earlier = |link: &LinkSpec| before.links.iter().find(|other| other.name == link.name);
        let mut fates = Vec::new();
        for (index, link) in config.links.iter().enumerate() {
            let changes = earlier(link).and_then(|earlier| changes(earlier, link));
            fates.push(match changes {
                Some(changes) if changes.is_empty() => Fate::Same,
                Some(changes) => Fate::Altered(changes),
                None => Fate::Anew(Box::new(build(&config, index, self.flow_hash_key, now)?)),
            });
        }
        Ok((config, fates))
    }

    async fn take_over(&self, config: Config, mut fates: Vec<Fate>) -> Result<(), Failure> {
        let before = self.lines.borrow().clone();
        let known = |link: &LinkSpec| {
            let mut lines = before.iter();
            lines.find(|line| line.meter.borrow().spec.name == link.name)
        };
        let mut fresh = Vec::new();
        for (link, fate) in config.links.iter().zip(&mut fates) {
            if known(link).is_some() {
                continue;
            }
            debug!(link = link.name, "adding");
            let Fate::Anew(transit) = std::mem::replace(fate, Fate::Same) else {
                unreachable!("a new link has been built");
            };
            let spec = link.clone();
            let device = self.plumber.ask(move |plumbing| plumbing.add(&spec)).await;
            match device.and_then(|device| Line::new(link, *transit, device)) {
                Ok(line) => fresh.push(line),
                Err(error) => {
                    let specs = fresh.drain(..);
                    let specs = specs.map(|line: Rc<Line>| line.meter.borrow().spec.clone());
                    let specs: Vec<_> = specs.chain([link.clone()]).collect();
                    let undo = move |plumbing: &mut Plumbing| {
                        specs.iter().for_each(|spec| plumbing.undo(spec));
                    };
                    self.plumber.ask(undo).await;
                    return Err(error);
                }
            }
        }
        let now = clock::now();
        let mut fresh = fresh.into_iter();
        let mut lines = Vec::new();
        for (link, fate) in config.links.iter().zip(fates) {
            let known = known(link).cloned();
            let is_new = known.is_none();
            let line = known
                .or_else(|| fresh.next())
                .expect("it has just been made");
            match fate {
                Fate::Same => line.meter.borrow_mut().spec = link.clone(),
                Fate::Altered(changes) => {
                    debug!(link = link.name, ?changes, "changing");
                    let mut forwarder = line.forwarder.borrow_mut();
                    forwarder.alter(now, &changes, link.timing);
                    drop(forwarder);
                    line.meter.borrow_mut().alter(link.clone(), now);
                    self.start(&line);
                }
                Fate::Anew(transit) => {
                    debug!(link = link.name, "making anew");
                    let mut forwarder = line.forwarder.borrow_mut();
                    forwarder.replace(now, *transit, link.timing);
                    drop(forwarder);
                    line.meter.replace(Meter::new(link.clone()));
                    self.start(&line);
                }
            }
            if is_new {
                self.start(&line);
            }
            lines.push(line);
        }
        drop(before);
        let links = config.links.clone();
        let mut removed = self.lines.replace(lines);
        removed.retain(|line| {
            let lines = self.lines.borrow();
            !lines.iter().any(|other| Rc::ptr_eq(other, line))
        });
        self.config.replace(config);
        let adopt = move |plumbing: &mut Plumbing| {
            plumbing.adopt(&links);
            plumbing.mend(true)
        };
        self.note(self.plumber.ask(adopt).await)?;
        removed.iter().for_each(|line| line.stop());
        // Its task lets the device go at its next turn.
        while removed.iter().any(|line| Rc::strong_count(line) > 1) {
            yield_now().await;
        }
        drop(removed);
        self.plumber.ask(Plumbing::forget).await;
        self.read.set((now, self.read.get().1 + 1));
        info!("reloaded {}", self.path.display());
        Ok(())
    }
}

/// Gives links that leave their tables to us those that they have in the running router, which are
/// `before`, by name, and others a free one: the number depends on the position in the file, which
/// may be another one now.
pub(crate) fn keep_tables(before: &[(&str, u32)], after: &mut Config) {
    const REACH: u32 = LinkSpec::ENTRY_TABLE_OFFSET;
    for index in 0..after.links.len() {
        let link = &after.links[index];
        if link.gives_table {
            continue;
        }
        let earlier = before.iter().find(|(name, _)| *name == link.name);
        let is_taken = |table: u32| {
            let others = after.links[..index].iter().map(|link| link.table);
            let mut others = others.chain(before.iter().map(|(_, table)| *table));
            let given = after
                .links
                .iter()
                .any(|link| link.gives_table && [0, REACH].contains(&link.table.abs_diff(table)));
            // A second table of the link's own may follow it.
            let meets = |other: u32| [0, REACH].contains(&other.abs_diff(table));
            given || others.any(meets)
        };
        let free = || (link.table..).find(|table| !is_taken(*table));
        let table = earlier.map(|(_, table)| *table).or_else(free);
        after.links[index].table = table.expect("there are fewer links than tables");
    }
}

/// What makes a link another one while it goes on; `None` if it must be made anew.
fn changes(before: &LinkSpec, after: &LinkSpec) -> Option<Vec<Change>> {
    let is_steady = before.trace == after.trace && before.timing == after.timing;
    let changes = before.description.changes_to(&after.description);
    changes.filter(|_| is_steady)
}

/// Returns what only a router that starts can take over.
fn fixed(before: &Config, after: &Config) -> Vec<Failure> {
    let mut problems = Vec::new();
    let mut check = |is_same: bool, what: String| {
        if !is_same {
            problems.push(Failure::usage(format!(
                "{what} cannot change while the router runs; restart it, or take the change back"
            )));
        }
    };
    check(before.name == after.name, "the router's name".to_owned());
    check(before.socket == after.socket, "socket".to_owned());
    check(before.metrics == after.metrics, "metrics".to_owned());
    for link in &after.links {
        let mut links = before.links.iter();
        if let Some(other) = links.find(|other| other.name == link.name) {
            for (key, is_same) in [
                ("tun", other.tun == link.tun),
                ("table", other.table == link.table),
                ("offload", other.offload == link.offload),
            ] {
                check(is_same, format!("{key} of link {:?}", link.name));
            }
        } else if let Some(other) = before.links.iter().find(|other| other.tun == link.tun) {
            check(false, format!("the name of link {:?}", other.name));
        }
    }
    problems
}
