//! Answers HTTP requests for figures.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net;
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::timeout;
use tracing::{debug, error};

use super::{Listener, Question, families};
use crate::clients::{self, Seat};
use crate::clock;

/// Where the figures are.
const PATH: &str = "/metrics";

/// The media type of OpenMetrics (its specification, section "Overall Structure").
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The longest head of a request in bytes, and the least that hyper allows.
const MAX_HEAD: usize = 8192;

/// How long a connection may take, from its first byte to the last one of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How old figures may be: younger ones are given again.
const FRESH: Duration = Duration::from_millis(250);

/// Answers on a socket, for ever.
pub(super) fn run(
    runtime: &Runtime,
    listener: Listener,
    name: &str,
    router: mpsc::Sender<Question>,
) {
    let page = Rc::new(Page {
        router,
        latest: Mutex::new(None),
    });
    let served = LocalSet::new().block_on(runtime, serve(listener, name, page));
    if let Err(error) = served {
        error!("there are no metrics: {error}; forwarding goes on; start the router again");
    }
}

async fn serve(listener: Listener, name: &str, page: Rc<Page>) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let listener = net::TcpListener::from_std(listener)?;
            let next = async || Ok(listener.accept().await?.0);
            clients::serve(name, next, |client, seat| talk(client, seat, page.clone())).await;
        }
        Listener::Unix(listener) => {
            let listener = net::UnixListener::from_std(listener)?;
            let next = async || Ok(listener.accept().await?.0);
            clients::serve(name, next, |client, seat| talk(client, seat, page.clone())).await;
        }
    }
    Ok(())
}

/// Answers one request of a client, and closes the connection.
async fn talk<S>(client: S, _seat: Seat, page: Rc<Page>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(|request| {
        let page = Rc::clone(&page);
        async move { Ok::<_, Infallible>(answer(&request, &page).await) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(client), service);
    match timeout(PATIENCE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "metrics client lost"),
        Err(_) => debug!("a metrics client was put out: it is too slow"),
    }
}

async fn answer(request: &Request<Incoming>, page: &Page) -> Response<String> {
    let mut response = Response::new(String::new());
    if request.uri().path() != PATH {
        *response.status_mut() = StatusCode::NOT_FOUND;
        *response.body_mut() = format!("there are figures at {PATH}\n");
    } else if ![Method::GET, Method::HEAD].contains(request.method()) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
    } else if let Some(text) = page.text().await {
        *response.body_mut() = text;
        let open_metrics = HeaderValue::from_static(OPEN_METRICS);
        response.headers_mut().insert(CONTENT_TYPE, open_metrics);
    } else {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        *response.body_mut() = "the router cannot read its devices' counters\n".to_owned();
    }
    response
}

/// The figures as text.
struct Page {
    router: mpsc::Sender<Question>,
    /// The latest text, and when the router was asked for it.
    latest: Mutex<Option<(Instant, String)>>,
}

impl Page {
    async fn text(&self) -> Option<String> {
        let mut latest = self.latest.lock().await;
        let now = clock::now();
        if let Some((asked, text)) = &*latest
            && now.saturating_duration_since(*asked) < FRESH
        {
            return Some(text.clone());
        }
        *latest = None;
        let (question, figures) = oneshot::channel();
        self.router.send(question).await.ok()?;
        let text = families::text(figures.await.ok()?);
        *latest = Some((now, text.clone()));
        Some(text)
    }
}
