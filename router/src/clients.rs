//! Serves the clients of a socket, a few at a time, whatever they or the system do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, spawn_local};
use tracing::{debug, warn};

use crate::clock;

/// How many clients are served at a time; for one more, the one that has been silent longest goes.
const MAX_CLIENTS: usize = 16;

/// How long a client may be silent when others want its place: it may just have connected.
const COURTESY: Duration = Duration::from_secs(1);

/// How long to wait when the system gives no further connection.
const BACK_OFF: Duration = Duration::from_millis(500);

/// Serves the clients that `next` waits for, each by what `talk` returns, for ever; `socket` names
/// the socket for people. Call it within a `LocalSet`.
pub(crate) async fn serve<T, F: Future<Output = ()> + 'static>(
    socket: &str,
    mut next: impl AsyncFnMut() -> io::Result<T>,
    talk: impl Fn(T, Seat) -> F,
) {
    let clients = Rc::new(Clients::default());
    for number in 0_u64.. {
        let client = accept(socket, &mut next).await;
        clients.make_room().await;
        let seat = Seat {
            number,
            clients: Rc::clone(&clients),
        };
        let task = spawn_local(talk(client, seat));
        clients.add(number, task.abort_handle());
    }
}

/// Waits for a client. What the system refuses (too many open files, for example) is said once, and
/// tried again: it concerns this socket alone.
async fn accept<T>(socket: &str, next: &mut impl AsyncFnMut() -> io::Result<T>) -> T {
    let mut has_failed = false;
    loop {
        let error = match next().await {
            Ok(client) => return client,
            Err(error) => error,
        };
        if !has_failed {
            has_failed = true;
            warn!(
                "cannot answer on {socket} for now: {error}; forwarding goes on, and the router tries \
                 again; are there too many open files?"
            );
        }
        clock::pause(BACK_OFF).await;
    }
}

/// A client's place, given up when it is dropped.
pub(crate) struct Seat {
    number: u64,
    clients: Rc<Clients>,
}

impl Seat {
    /// The client has said something.
    pub(crate) fn heard(&self) {
        if let Some(client) = self.clients.remove(self.number) {
            self.clients.add(self.number, client.task);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.clients.remove(self.number);
    }
}

/// The clients that are being served, the one that has been silent longest first.
#[derive(Debug, Default)]
struct Clients(RefCell<VecDeque<Client>>);

#[derive(Debug)]
struct Client {
    number: u64,
    heard: Instant,
    task: AbortHandle,
}

impl Clients {
    fn add(&self, number: u64, task: AbortHandle) {
        let heard = clock::now();
        self.0.borrow_mut().push_back(Client {
            number,
            heard,
            task,
        });
    }

    fn remove(&self, number: u64) -> Option<Client> {
        let mut clients = self.0.borrow_mut();
        let index = clients.iter().position(|client| client.number == number)?;
        clients.remove(index)
    }

    /// Waits until one more may come, or the client that has been silent longest can be put out.
    async fn make_room(&self) {
        while self.0.borrow().len() >= MAX_CLIENTS {
            let silent = clock::now().saturating_duration_since(self.0.borrow()[0].heard);
            if silent < COURTESY {
                clock::pause(COURTESY - silent).await;
                continue;
            }
            let client = self.0.borrow_mut().pop_front();
            client.expect("there are many").task.abort();
            debug!("a client was put out: another needs its place");
        }
    }
}
