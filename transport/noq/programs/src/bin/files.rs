//! Sends a file or a directory over iroh-blobs, which checks all that arrives against BLAKE3 hashes
//! and resumes what was interrupted, with a controller of evenkeel. See `docs/files.md`.

#![expect(clippy::disallowed_methods, reason = "a program: it reads the clock")]

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use evenkeel_noq_programs::{Arguments, Result, at, end};
use iroh::endpoint::{Connection, QuicTransportConfig, VarInt, presets};
use iroh::protocol::Router;
use iroh::{Endpoint, RelayMode, SecretKey};
use iroh_blobs::api::blobs::{AddPathOptions, ExportMode, ExportOptions, ImportMode};
use iroh_blobs::api::remote::GetProgressItem;
use iroh_blobs::format::collection::Collection;
use iroh_blobs::get::request::get_hash_seq_and_sizes;
use iroh_blobs::protocol::{ChunkRanges, GetRequest};
use iroh_blobs::store::fs::FsStore;
use iroh_blobs::ticket::BlobTicket;
use iroh_blobs::{BlobFormat, BlobsProtocol, Hash};
use n0_future::{BufferedStreamExt, StreamExt};

const USAGE: &str = "\
usage: files send PATH             prints a ticket, and serves PATH until Ctrl-C
       files receive TICKET DIR    fetches what the ticket is for into DIR
options: --controller NAME         keel, cubic, bbr, ..., or default: iroh's own
         --listen ADDRESS:PORT     0.0.0.0:4436 of `send`, any port of `receive`
         --state DIR               of `send`, where its key is: .evenkeel-files";

/// The longest list of names and of hashes, in bytes: a million files.
const LISTS: u64 = 32_000_000;
/// The store writes files up to this size, in bytes, and moves larger ones as a whole.
const WRITTEN: u64 = 16 * 1024;

#[tokio::main]
async fn main() -> ExitCode {
    tokio::select! {
        result = run() => end(result),
        _ = tokio::signal::ctrl_c() => end(Err("interrupted: the same command goes on".into())),
    }
}

async fn run() -> Result<()> {
    let arguments = Arguments::of_process(&["controller", "listen", "state"])?;
    match arguments.words()[..] {
        ["send", path] => send(&arguments, Path::new(path)).await,
        ["receive", ticket, directory] => receive(&arguments, ticket, Path::new(directory)).await,
        _ => Err(USAGE.into()),
    }
}

async fn send(arguments: &Arguments, path: &Path) -> Result<()> {
    let root = at(path, fs::canonicalize(path))?;
    let state = arguments.option("state", PathBuf::from(".evenkeel-files"))?;
    // The same key and port after a restart: the ticket stays valid.
    let (_lock, key) = lock(&state)?;
    let store = std::path::absolute(state.join("store"))?;
    remove(&store)?;
    let store = FsStore::load(store).await?;

    let parent = root.parent().ok_or("send a directory below /")?;
    let (mut paths, start) = (Vec::new(), Instant::now());
    walk(&root, &mut paths)?;
    let mut added = n0_future::stream::iter(paths.iter().map(async |path| {
        let name = name(path.strip_prefix(parent)?)?;
        let (path, format) = (path.clone(), BlobFormat::Raw);
        let options = AddPathOptions {
            path,
            format,
            mode: ImportMode::TryReference,
        };
        let tag = store.blobs().add_path_with_opts(options).temp_tag().await;
        let tag = tag.map_err(|error| format!("{name}: {error}"))?;
        Result::Ok((name, tag.hash()))
    }))
    .buffered_unordered(16);
    let mut files = Vec::new();
    while let Some(file) = added.next().await {
        files.push(file?);
    }
    files.sort();
    let tag = Collection::from_iter(files).store(&store).await?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{} files, hashed in {seconds:.1} s", paths.len());

    let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 4436));
    let endpoint = endpoint(arguments, key, listen).await?;
    let ticket = BlobTicket::new(endpoint.addr(), tag.hash(), BlobFormat::HashSeq);
    let blobs = BlobsProtocol::new(&store, None);
    let router = Router::builder(endpoint).accept(iroh_blobs::ALPN, blobs);
    let _router = router.spawn();
    println!("{ticket}");
    std::future::pending().await
}

async fn receive(arguments: &Arguments, ticket: &str, directory: &Path) -> Result<()> {
    let parsed = ticket.parse::<BlobTicket>();
    let ticket = parsed.map_err(|error| format!("this is no ticket: {error}"))?;
    if ticket.format() != BlobFormat::HashSeq {
        return Err("the ticket is for a blob without a name, not for files".into());
    }
    let (hash, start) = (ticket.hash(), Instant::now());
    at(directory, fs::create_dir_all(directory))?;
    let directory = fs::canonicalize(directory)?;
    let state = directory.join(format!(".evenkeel-{}", hash.fmt_short()));
    let (lock, key) = lock(&state)?;
    let [staging, arrived, exported] =
        ["files", "arrived", "exported"].map(|name| state.join(name));
    let store = FsStore::load(state.join("store")).await?;
    if !arrived.exists() {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let endpoint = endpoint(arguments, key, listen).await?;
        let connection = endpoint.connect(ticket.addr().clone(), iroh_blobs::ALPN);
        let connection = tokio::time::timeout(Duration::from_secs(10), connection).await;
        let connection = connection.map_err(|_| "the sender does not answer: does it run?")??;
        let fetched = fetch(&connection, &store, hash, &directory).await;
        connection.close(VarInt::from_u32(0), b"");
        endpoint.close().await;
        fetched.inspect_err(|_| eprintln!("the same command goes on with what is here"))?;
        at(&arrived, File::create(&arrived))?;
    }
    let collection = Collection::load(hash, &*store).await?;
    if !exported.exists() {
        export(&collection, &store, &staging).await?;
        at(&exported, File::create(&exported))?;
    }
    store.shutdown().await?;
    for top in tops(&collection) {
        let (from, to) = (staging.join(top), directory.join(top));
        if from.exists() {
            refuse_existing(&to)?;
            at(&to, fs::rename(from, &to))?;
        }
    }
    drop(lock);
    remove(&state)?;
    let (files, seconds) = (collection.len(), start.elapsed().as_secs_f64());
    println!("received {files} files in {seconds:.2} s");
    Ok(())
}

/// Brings files out of the store: it moves one to the first of its names; at others are copies.
async fn export(collection: &Collection, store: &FsStore, to: &Path) -> Result<()> {
    let mut first = HashMap::<Hash, PathBuf>::new();
    for (name, hash) in collection.iter() {
        let (hash, target) = (*hash, to.join(name));
        if let Some(source) = first.get(&hash) {
            at(&target, fs::create_dir_all(target.parent().unwrap_or(to)))?;
            at(&target, fs::copy(source, &target))?;
            continue;
        }
        first.insert(hash, target.clone());
        // A larger one was moved before this program was killed.
        if target.metadata().map_or(0, |metadata| metadata.len()) <= WRITTEN {
            let mode = ExportMode::TryReference;
            let options = ExportOptions { hash, mode, target };
            store.blobs().export_with_opts(options).finish().await?;
        }
    }
    Ok(())
}

/// Fetches what the store lacks, after a look at all names and sizes.
async fn fetch(connection: &Connection, store: &FsStore, hash: Hash, to: &Path) -> Result<()> {
    let (_, sizes) = get_hash_seq_and_sizes(connection, &hash, LISTS, None).await?;
    if sizes.first().is_none_or(|names| *names > LISTS) {
        return Err("the sender has no list of names, or one of more than 32 MB".into());
    }
    let lists = GetRequest::builder().root(ChunkRanges::all());
    let lists = lists.child(0, ChunkRanges::all()).build(hash);
    let remote = store.remote();
    remote.execute_get(connection.clone(), lists).await?;
    let collection = Collection::load(hash, &**store).await?;
    check_names(&collection)?;
    for top in tops(&collection) {
        refuse_existing(&to.join(top))?;
    }

    let sizes = sizes.iter().skip(1);
    let total = sizes.fold(0_u64, |sum, size| sum.saturating_add(*size));
    let (files, content) = (collection.len(), (hash, BlobFormat::HashSeq));
    let here = remote.local(content).await?.local_bytes();
    eprintln!("{files} files, {total} bytes, of which {here} are here");
    let mut progress = remote.fetch(connection.clone(), content).stream();
    let (mut said, mut before) = (Instant::now(), 0);
    while let Some(item) = progress.next().await {
        match item {
            GetProgressItem::Progress(bytes) if said.elapsed() >= Duration::from_secs(2) => {
                let rate = (bytes - before) as f64 * 8e-6 / said.elapsed().as_secs_f64();
                eprintln!("{} of {total} bytes, {rate:.1} Mb/s", here + bytes);
                (said, before) = (Instant::now(), bytes);
            }
            GetProgressItem::Progress(_) => {}
            GetProgressItem::Done(_) => return Ok(()),
            GetProgressItem::Error(error) => return Err(error.into()),
        }
    }
    Err("the transfer ended early".into())
}

/// Refuses names that lead out of the directory, come twice, or are a file and a directory.
fn check_names(collection: &Collection) -> Result<()> {
    let (mut files, mut directories) = (HashSet::new(), HashSet::new());
    for (name, _) in collection.iter() {
        let path = Path::new(name);
        let mut parts = path.components();
        let normal = parts.all(|part| matches!(part, Component::Normal(_)));
        // Components leave out what is empty or a dot.
        let plain = path.components().collect::<PathBuf>().as_os_str() == OsStr::new(name);
        if name.is_empty() || name.contains('\0') || !normal || !plain || !files.insert(path) {
            return Err(format!("the sender has a file {name:?}, or two: refused").into());
        }
        directories.extend(path.ancestors().skip(1));
    }
    match files.intersection(&directories).next() {
        Some(both) => Err(format!("the sender has {both:?} as file and directory").into()),
        None => Ok(()),
    }
}

/// The first components of all names.
fn tops(collection: &Collection) -> HashSet<&OsStr> {
    let names = collection.iter();
    names
        .filter_map(|(name, _)| Path::new(name).iter().next())
        .collect()
}

fn refuse_existing(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => at(path, Err(error)),
        Ok(_) => Err(format!("{} exists: move it, or name another DIR", path.display()).into()),
    }
}

/// An endpoint that is reached by its addresses alone: no relay, no look-up.
async fn endpoint(arguments: &Arguments, key: SecretKey, listen: SocketAddr) -> Result<Endpoint> {
    let listen = arguments.option("listen", listen)?;
    // Of one stream noq takes 2048 pieces out of order, then it ends the connection.
    let window = VarInt::from_u32(2048 * 1200);
    let mut transport = QuicTransportConfig::builder().stream_receive_window(window);
    let controller = arguments.option("controller", "keel".to_owned())?;
    if controller != "default" {
        let controller = evenkeel_noq::controller(&controller)?;
        transport = transport.congestion_controller_factory(controller);
    }
    let builder = Endpoint::builder(presets::Minimal)
        .relay_mode(RelayMode::Disabled)
        .clear_ip_transports()
        .bind_addr(listen)?
        .secret_key(key)
        .transport_config(transport.build());
    let bound = builder.bind().await;
    Ok(bound.map_err(|error| format!("{listen}: {error}; --listen names another"))?)
}

/// Appends all files below `path`, without symbolic links and devices.
fn walk(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let kind = at(path, path.symlink_metadata())?.file_type();
    if kind.is_file() {
        files.push(path.to_owned());
    } else if kind.is_dir() {
        for entry in at(path, fs::read_dir(path))? {
            walk(&entry?.path(), files)?;
        }
    }
    Ok(())
}

/// A path as all systems write it: UTF-8, with slashes.
fn name(path: &Path) -> Result<String> {
    let parts: Option<Vec<&str>> = path.iter().map(OsStr::to_str).collect();
    let parts = parts.ok_or_else(|| format!("{path:?} is no UTF-8: rename it"))?;
    Ok(parts.join("/"))
}

/// Makes a directory of state. Returns its lock, for one process, and its key.
fn lock(directory: &Path) -> Result<(File, SecretKey)> {
    at(directory, fs::create_dir_all(directory))?;
    let path = directory.join("key");
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = at(&path, options.open(&path))?;
    file.try_lock()
        .map_err(|_| format!("another process uses {}", directory.display()))?;
    let known = <[u8; 32]>::try_from(at(&path, fs::read(&path))?);
    let key = known.map_or_else(|_| SecretKey::generate(), |key| SecretKey::from_bytes(&key));
    file.write_all(&key.to_bytes())?;
    Ok((file, key))
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => at(directory, result),
    }
}
