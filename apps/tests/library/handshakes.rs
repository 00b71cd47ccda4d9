//! Servers and connection attempts that never finish.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use evenkeel_apps::bulk::{self, Amount, Direction, Job, Local, ServeOptions};

use crate::initials::initials;
use crate::pair::Pair;

/// The type of a packet with a long header (RFC 9000, section 17.2), in its first byte.
const TYPE: u8 = 0b0011_0000;

#[tokio::test]
async fn attempts_that_never_finish_leave_room_and_make_the_server_ask_for_proof() {
    let pair = Pair::new();
    let mut options = ServeOptions::default();
    options.limits.connections = 1;
    pair.serve(options);
    let address = pair.server.local_addr().unwrap();
    let mut answers = Vec::new();
    for (nth, packet) in initials(bulk::ALPN, 100).await.iter().enumerate() {
        let source = Ipv4Addr::new(127, 1, nth as u8, 1);
        let socket = UdpSocket::bind((source, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let socket = tokio::net::UdpSocket::from_std(socket).unwrap();
        socket.send_to(packet, address).await.unwrap();
        let mut answer = [0; 2048];
        socket.recv(&mut answer).await.unwrap();
        answers.push(answer[0] & TYPE);
    }
    // Initial packets first, then nothing but Retry.
    let retries = answers.iter().filter(|kind| **kind == TYPE).count();
    assert_eq!(retries, 36, "{answers:?}");
    assert!(answers.is_sorted(), "{answers:?}");

    let mut job = Job::new(Direction::Up, Amount::Bytes(1000));
    job.verify = None;
    let transfer = async {
        let connection = pair.connect().await;
        let runtime = std::sync::Arc::new(quinn::TokioRuntime);
        bulk::client(
            connection,
            runtime,
            job,
            Local::default(),
            Default::default(),
        )
        .await
    };
    let outcome = tokio::time::timeout(Duration::from_secs(60), transfer).await;
    assert_eq!(outcome.unwrap().unwrap().receiver.bytes, 1000);
}
