//! Each mistake is one line that names cause and remedy: status 2 for what was typed,
//! 1 for what happened.

use std::net::UdpSocket;

use crate::program::{Server, client, failure, json, last_words, run, success};

#[test]
fn wrong_client_arguments_are_usage_errors() {
    for (arguments, word) in [
        (&[][..], "HOST"),
        (&["a:b:c"], "a:b:c"),
        (&["host:0"], "port 0"),
        (&["host:70000"], "host:70000"),
        (&["[::1"], "[::1"),
        (&["no spaces"], "no spaces"),
        (&["h", "--colour"], "--colour"),
        (&["h", "extra"], "extra"),
        (&["h", "--bytes", "20 bananas"], "bananas"),
        (&["h", "--bytes", "-5"], "-5"),
        (&["h", "--bytes", "99999999TB"], "more than one transfer"),
        (&["h", "--time", "0"], "above 0"),
        (&["h", "--time", "soon"], "soon"),
        (&["h", "--time", "1e9"], "between"),
        (&["h", "--time", "5", "--omit", "5"], "warm-up"),
        (&["h", "--omit", "nan"], "nan"),
        (&["h", "--bytes", "1", "--time", "1"], "cannot be used with"),
        (&["h", "--file", "x", "--bytes", "1"], "cannot be used with"),
        (&["h", "--streams", "0"], "1..=128"),
        (&["h", "-P", "129"], "129"),
        (&["h", "--output", "x"], "--reverse"),
        (
            &["h", "--file", "-", "-P", "2"],
            "one stream over one connection",
        ),
        (
            &["h", "-R", "--output", "-", "--json"],
            "standard output has the data",
        ),
        (&["h", "--pin", "sha256:12"], "64 hexadecimal"),
        (&["h", "--pin", "md5:12"], "64 hexadecimal"),
        (&["h", "--insecure", "--ca", "x"], "cannot be used with"),
        (&["h", "--json", "--json-lines"], "cannot be used with"),
        (&["h", "--server-name", "a b"], "host name"),
        (&["h", "--controller", "warp"], "unknown controller"),
        (&["h", "--controller", "vega"], "did you mean vegas?"),
        (&["h", "--controller", "vegas:colour=1"], "colour"),
        (&["h", "--controller", "vegas:alpha"], "alpha"),
        (&["h", "--controller", "vegas:alpha=-1"], "alpha"),
        (&["h", "--controller", ""], "controller"),
        (&["h", "--json", "--interval", "1"], "cannot be used with"),
        (&["h", "--json", "--rtt-samples"], "cannot be used with"),
        (&["h", "--json-lines", "--interval", "0"], "0.01 and 3600"),
        (
            &["h", "--json-lines", "--interval", "4000"],
            "0.01 and 3600",
        ),
        (&["h", "--rtt-samples"], "--json-lines"),
        (&["h", "--path-samples"], "--json-lines"),
        (&["h", "--json", "--path-samples"], "cannot be used with"),
        (&["h", "--path-headers", "1.5"], "'1.5' is no number"),
        (&["h", "--path-headers", "on"], "'echo' or 'off'"),
        (&["h", "--pacing=off"], "use one of controller, quinn, none"),
        (&["h", "--ack-every", "0"], "1..=1000"),
        (&["h", "--ack-every", "1001"], "1..=1000"),
        (&["h", "--max-ack-delay", "16384"], "0..=16383"),
        (&["h", "--max-ack-delay", "0.5"], "0.5"),
        (&["h", "--packet-threshold", "2"], "3..=1000000"),
        (&["h", "--time-threshold", "0.9"], "from 1 to 100"),
        (&["h", "--time-threshold", "nan"], "from 1 to 100"),
        (&["h", "-b", "0"], "below 1000"),
        (&["h", "-b", "5k", "--on", "1", "--off", "1"], "no room"),
        (&["h", "-b", "3MB"], "3MB"),
        (&["h", "-C", "0"], "1..=1000"),
        (&["h", "--on", "1"], "--off"),
        (&["h", "--on", "1", "--off", "30"], "0.1 and 20"),
        (&["h", "--bidir", "--reverse"], "cannot be used with"),
        (&["h", "--remember", "x", "-R"], "cannot be used with"),
        (&["h", "--bind", "localhost"], "localhost"),
        (&["h", "--bind", "10.0.0.1:x"], "10.0.0.1:x"),
    ] {
        let line = failure(&run(&[&["bulk", "client"], arguments].concat()), 2);
        assert!(line.contains(word), "{arguments:?}: {line}");
    }
}

#[test]
fn wrong_server_arguments_are_usage_errors() {
    for (arguments, word) in [
        (&["--listen", "here"][..], "here"),
        (&["--listen", "1.2.3.4"], "1.2.3.4"),
        (&["--cert", "x"], "--key"),
        (&["--key", "x"], "--cert"),
        (&["--json", "--json-lines"], "cannot be used with"),
        (&["--controller", "warp"], "unknown controller"),
        (&["--json-lines", "--interval", "0.001"], "0.01 and 3600"),
        (&["--json-lines", "--rtt-samples"], "--rtt-samples"),
        (&["--ack-every", "0"], "1..=1000"),
        (&["--max-ack-delay", "-1"], "-1"),
        (&["extra"], "extra"),
    ] {
        let line = failure(&run(&[&["bulk", "server"], arguments].concat()), 2);
        assert!(line.contains(word), "{arguments:?}: {line}");
    }
}

#[test]
fn a_missing_or_unknown_subcommand_is_a_usage_error() {
    for (arguments, word) in [
        (&[][..], "subcommand"),
        (&["bulk"], "subcommand"),
        (&["bulk", "sideways"], "sideways"),
        (&["bunk"], "did you mean bulk?"),
        (&["-v"], "a subcommand is missing"),
        (&["bulk", "clint"], "did you mean client?"),
        (
            &["bulk", "client", "h", "--contoller", "x"],
            "--controller?",
        ),
        (&["help", "bunk"], "bunk"),
    ] {
        let line = failure(&run(arguments), 2);
        assert!(
            line.contains(word) && line.contains("--help"),
            "{arguments:?}: {line}"
        );
    }
}

#[test]
fn help_has_examples_and_is_no_error() {
    for side in ["server", "client"] {
        let output = run(&["bulk", side, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("Examples:") && text.contains("--controller"),
            "{text}"
        );
    }
}

#[test]
fn the_subcommand_help_prints_what_the_option_does() {
    for (subcommand, option) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "bulk"], &["bulk", "--help"]),
        (
            &["stream", "help", "client"],
            &["stream", "client", "--help"],
        ),
    ] {
        let (printed, expected) = (success(run(subcommand)), success(run(option)));
        assert_eq!(printed, expected, "{subcommand:?}");
        assert!(printed.contains("Usage: evenkeel"), "{printed}");
    }
}

#[test]
fn diagnostics_go_to_standard_error_if_they_are_asked_for() {
    let server = Server::bulk(&[]);
    let diagnostics = |rust_log: &str, options: &[&str]| {
        let mut command = server.client(&["--bytes", "10kB", "--json"]);
        command.args(options).env("RUST_LOG", rust_log);
        let output = command.output().unwrap();
        assert!(output.status.success());
        assert_eq!(
            json(str::from_utf8(&output.stdout).unwrap())["record"],
            "result"
        );
        String::from_utf8(output.stderr).unwrap()
    };
    for (rust_log, options, expected) in [
        ("", &["-v"][..], "evenkeel_apps::bulk"),
        ("", &["-vv"], "evenkeel_apps::bulk"),
        ("evenkeel_apps=debug", &[], "evenkeel_apps::bulk"),
        ("quinn_proto=trace", &[], "quinn_proto"),
    ] {
        let text = diagnostics(rust_log, options);
        assert!(text.contains(expected), "{rust_log} {options:?}: {text}");
    }
    assert_eq!(diagnostics("", &[]), "");
    assert_eq!(diagnostics("trace", &["-q"]), "");

    let mut command = server.client(&[]);
    let output = command.env("RUST_LOG", "a=b=c").output().unwrap();
    assert!(failure(&output, 2).contains("RUST_LOG"));
}

#[test]
fn a_port_in_use_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let line = failure(&run(&["bulk", "server", "--listen", &address]), 1);
    assert_eq!(
        line,
        format!(
            "evenkeel: cannot listen on {address}: address already in use; \
             stop the other program or choose another --listen"
        )
    );
}

#[test]
fn an_address_of_another_machine_cannot_be_listened_on() {
    let line = failure(&run(&["bulk", "server", "--listen", "192.0.2.1:0"]), 1);
    assert_eq!(
        line,
        "evenkeel: cannot listen on 192.0.2.1:0: cannot assign requested address; \
         give --listen an address of this machine"
    );
}

#[test]
fn an_address_that_cannot_be_sent_from_is_named() {
    for (local, word) in [
        ("192.0.2.1", "cannot open a socket on 192.0.2.1:0"),
        ("::1", "no address of 127.0.0.1 can be reached from [::1]:0"),
    ] {
        let arguments = ["bulk", "client", "127.0.0.1", "--insecure", "--bind", local];
        let line = failure(&run(&arguments), 1);
        assert!(line.contains(word) && line.contains("--bind"), "{line}");
    }
}

#[test]
fn a_name_without_address_is_named() {
    // RFC 6761, section 6.4: names below `invalid` never resolve.
    let line = failure(
        &run(&["bulk", "client", "nowhere.invalid", "--insecure"]),
        1,
    );
    assert!(line.contains("cannot resolve nowhere.invalid"), "{line}");
}

#[test]
fn a_port_that_no_program_has_is_told_before_the_handshake_takes_too_long() {
    // No other test has this address of the loopback network, and while the port is taken on another
    // one, the system gives it to no socket that is bound to all of them.
    let taken = UdpSocket::bind("127.0.0.78:0").unwrap();
    let address = format!("127.0.0.77:{}", taken.local_addr().unwrap().port());
    for (application, bind) in [("bulk", &[][..]), ("stream", &["--bind", "127.0.0.1"])] {
        let arguments = [&[application, "client", &address, "--insecure"], bind].concat();
        let line = failure(&run(&arguments), 1);
        assert_eq!(
            line,
            format!(
                "evenkeel: cannot connect to {address}: no program has that UDP port; check that \
                 `evenkeel {application} server` runs there and that UDP gets through"
            )
        );
    }
}

#[test]
fn a_server_without_files_tells_its_owner_how_to_offer_some() {
    let server = Server::bulk(&["--once"]);
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let arguments = ["-R", "--file", "x", "--output", output.to_str().unwrap()];
    let line = failure(&client(&server, &arguments), 1);
    let remedy = "offers no files; ask for what it offers, or ask its owner to allow it";
    assert!(line.ends_with(remedy), "{line}");
    let line = last_words(&server.output(), 1);
    assert!(
        line.ends_with("this server offers no files; start it with --root DIR to offer some"),
        "{line}"
    );
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let line = failure(&run(&["bulk", "client", &address, "--insecure"]), 1);
    assert!(
        line.contains(&address) && line.contains("no answer within"),
        "{line}"
    );
}

#[test]
fn files_that_cannot_be_had_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let missing = format!("{path}/missing/file");
    let server = Server::bulk(&[]);
    for (arguments, word) in [
        (&["--file", &missing][..], "--file"),
        (&["--file", path], "not a regular file"),
        (&["-R", "--output", &missing], "--output"),
        (&["-R", "--output", path], "--output"),
        (&["--qlog", "/dev/null/x"], "--qlog"),
    ] {
        let line = failure(&client(&server, arguments), 1);
        assert!(line.contains(word), "{arguments:?}: {line}");
    }
    for (arguments, word) in [
        (&["--root", &missing][..], "--root"),
        (&["--qlog", "/dev/null/x"], "--qlog"),
    ] {
        let all = [&["bulk", "server", "--listen", "127.0.0.1:0"], arguments].concat();
        let line = failure(&run(&all), 1);
        assert!(line.contains(word), "{arguments:?}: {line}");
    }
}
