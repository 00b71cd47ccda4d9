//! Whom a client trusts.

use std::{fs, path::Path, process::Output};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::program::{Server, client, failure, last_words, run, success};

#[test]
fn without_trust_the_client_refuses_and_prints_the_command_that_works() {
    let server = Server::bulk(&[]);
    let arguments = ["bulk", "client", &server.address, "--bytes", "1kB"];
    let line = failure(&run(&arguments), 1);
    assert!(line.contains("not trusted"), "{line}");
    let command = line.split("run: evenkeel ").nth(1).unwrap();
    let mut command: Vec<&str> = command.split(' ').collect();
    command.extend(["--bytes", "1kB"]);
    success(run(&command));
}

#[test]
fn the_command_the_server_prints_works() {
    let server = Server::bulk(&[]);
    let mut command: Vec<&str> = server.command.iter().map(String::as_str).collect();
    command.extend(["--bytes", "1kB"]);
    success(run(&command));
}

#[test]
fn a_wrong_pin_is_refused_with_both_fingerprints() {
    let server = Server::bulk(&[]);
    let other = format!("sha256:{}", "ab".repeat(32));
    let arguments = ["bulk", "client", &server.address, "--pin", &other];
    let line = failure(&run(&arguments), 1);
    assert!(
        line.contains(&other) && line.contains(&server.pin),
        "{line}"
    );
}

#[test]
fn insecure_trusts_anybody_and_says_in_one_line_what_that_means() {
    for server in [Server::bulk(&[]), Server::stream(&[])] {
        let application = server.command[0].as_str();
        let amount = match application {
            "bulk" => ["--bytes", "1kB"],
            _ => ["--time", "0.3"],
        };
        let arguments = [application, "client", &server.address, "--insecure"];
        let arguments = [&arguments[..], &amount].concat();
        let line = last_words(&run(&arguments), 0);
        assert!(line.contains("the server is not authenticated"), "{line}");
        assert!(line.contains(&format!("--pin {}", server.pin)), "{line}");
        success(run(&[&arguments[..], &["-q"]].concat()));
    }
}

#[test]
fn an_authority_vouches_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let (server, ca) = certified(directory.path(), |_| {});
    success(believing(&server, &ca, &["--server-name", "bulk.example"]));

    let line = failure(&believing(&server, &ca, &[]), 1);
    assert!(line.contains("not for the name 127.0.0.1"), "{line}");
    // A pin needs no name.
    success(client(&server, &["--bytes", "1kB"]));
}

#[test]
fn an_authority_does_not_vouch_for_an_expired_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (server, ca) = certified(directory.path(), |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let line = failure(
        &believing(&server, &ca, &["--server-name", "bulk.example"]),
        1,
    );
    assert!(line.contains("has expired"), "{line}");
}

#[test]
fn an_authority_does_not_vouch_for_a_foreign_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (_, ca) = certified(directory.path(), |_| {});
    let server = Server::bulk(&[]);
    let line = failure(&believing(&server, &ca, &["--server-name", "localhost"]), 1);
    assert!(
        line.contains("trusted authorities") && line.contains("--ca"),
        "{line}"
    );
}

#[test]
fn certificates_that_cannot_be_used_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let own = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        (
            write(&format!("{name}.pem"), &certificate),
            write(&format!("{name}.key"), &key.serialize_pem()),
        )
    };
    let (cert, key) = own("one");
    let (_, other_key) = own("two");
    let empty = write("empty", "");
    let missing = format!("{cert}.missing");
    for (cert, key, word) in [
        (&missing, &key, "no such file"),
        (&cert, &missing, "no such file"),
        (&empty, &key, "no PEM certificate"),
        (&cert, &empty, "no PEM key"),
        (&cert, &other_key, "cannot be used"),
    ] {
        let arguments = [
            "bulk",
            "server",
            "--listen",
            "127.0.0.1:0",
            "--cert",
            cert,
            "--key",
            key,
        ];
        let line = failure(&run(&arguments), 1);
        assert!(line.contains(word), "{word}: {line}");
    }
    for ca in [&missing, &empty] {
        let arguments = ["bulk", "client", "127.0.0.1:9", "--ca", ca];
        let line = failure(&run(&arguments), 1);
        assert!(line.contains("--ca"), "{line}");
    }
}

/// Runs a client that believes the authorities in `ca`.
fn believing(server: &Server, ca: &str, arguments: &[&str]) -> Output {
    let all = [
        "bulk",
        "client",
        &server.address,
        "--ca",
        ca,
        "--bytes",
        "1kB",
    ];
    run(&[&all[..], arguments].concat())
}

#[test]
fn a_self_signed_authority_gets_a_sentence_that_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let attempt = |name: &str, is_ca: IsCa| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let cert = write(
            &format!("{name}.pem"),
            &params.self_signed(&key).unwrap().pem(),
        );
        let key = write(&format!("{name}.key"), &key.serialize_pem());
        let server = Server::bulk(&["--cert", &cert, "--key", &key]);
        run(&[
            "bulk",
            "client",
            &server.address,
            "--server-name",
            "localhost",
            "--ca",
            &cert,
            "--bytes",
            "1kB",
        ])
    };
    // As `openssl req -x509` makes it.
    let line = failure(
        &attempt("authority", IsCa::Ca(BasicConstraints::Unconstrained)),
        1,
    );
    assert!(
        line.contains("use --pin") && line.contains("CA:FALSE"),
        "{line}"
    );
    // What the sentence proposes works.
    success(attempt("own", IsCa::ExplicitNoCa));
}

/// A server with a certificate for bulk.example by an authority of its own, and the
/// authority's file.
fn certified(directory: &Path, change: impl FnOnce(&mut CertificateParams)) -> (Server, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();

    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["bulk.example".to_owned()]).unwrap();
    change(&mut params);
    let certificate = params.signed_by(&key, &issuer).unwrap();

    let write = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ca = write("ca.pem", issuer.pem());
    let cert = write("cert.pem", certificate.pem());
    let key = write("key.pem", key.serialize_pem());
    (Server::bulk(&["--cert", &cert, "--key", &key]), ca)
}
