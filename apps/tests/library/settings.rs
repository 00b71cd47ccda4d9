//! Settings of the transport: what they do to a transfer over loopback.

use std::{sync::Arc, time::Duration};

use evenkeel_apps::bulk::{
    self, AckFrequency, Amount, Direction, Job, Local, ServeOptions, TransportSettings,
};
use quinn::ConnectionStats;

use crate::pair::Pair;

#[tokio::test]
async fn the_peer_is_asked_for_other_acknowledgements_only_if_they_differ_from_its_own() {
    let quinns = AckFrequency::default();
    for (acks, asked) in [
        (quinns, false),
        (AckFrequency { every: 1, ..quinns }, true),
        (
            AckFrequency {
                max_delay: Duration::from_millis(5),
                ..quinns
            },
            true,
        ),
    ] {
        let settings = TransportSettings {
            acks,
            ..TransportSettings::default()
        };
        let stats = upload(settings).await;
        let frames = stats.frame_tx.ack_frequency;
        assert_eq!(frames > 0, asked, "{acks:?}: {frames} frames");
    }
}

#[tokio::test]
async fn the_path_mtu_is_searched_unless_it_is_switched_off() {
    for mtu_discovery in [true, false] {
        let settings = TransportSettings {
            mtu_discovery,
            ..TransportSettings::default()
        };
        let stats = upload(settings).await;
        let path = stats.path;
        assert_eq!(path.sent_plpmtud_probes > 0, mtu_discovery);
        assert_eq!(path.current_mtu > 1200, mtu_discovery);
    }
}

/// What the connection of a client with these settings counted while it sent a megabyte.
async fn upload(settings: TransportSettings) -> ConnectionStats {
    let pair = Pair::with(settings);
    pair.serve(ServeOptions::default());
    let connection = pair.connect().await;
    let job = Job::new(Direction::Up, Amount::Bytes(1_000_000));
    let local = Local::default();
    let runtime = Arc::new(quinn::TokioRuntime);
    bulk::client(connection.clone(), runtime, job, local, Arc::default())
        .await
        .unwrap();
    connection.stats()
}
