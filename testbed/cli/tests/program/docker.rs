//! Scenarios on containers. Needs Docker's engine and the image of the repository's Dockerfile.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use evenkeel_tests::one_of_three_tries;
use evenkeel_tests::skip::{self, Need};
use rustix::process::Signal;

use crate::support::{
    alone, eventually, number, on_sim, result, result_of, scenario, signal, spawn, testbed, text,
};

const IMAGE: &str = concat!("evenkeel:", env!("CARGO_PKG_VERSION"));

/// What Docker's client prints; nothing if it fails.
fn docker(arguments: &[&str]) -> String {
    match Command::new("docker").args(arguments).output() {
        Ok(output) if output.status.success() => text(&output.stdout).trim().into(),
        _ => String::new(),
    }
}

/// Whether the tests of this file can run; says why if not.
#[track_caller]
fn can_run() -> bool {
    let possible = !docker(&["image", "inspect", "--format", "{{.Id}}", IMAGE]).is_empty();
    let image = format!("Docker's image {IMAGE}");
    skip::can_run(&[Need::new(
        &image,
        "install Docker, run .ci/docker",
        possible,
    )])
}

/// Starts the dumbbell in containers, in a directory of its own.
fn start(settings: &[&str]) -> (Child, tempfile::TempDir) {
    crate::support::start(&scenario("dumbbell.toml"), "docker", settings)
}

/// How many programs a run has started on a node.
fn started(pid: u32, node: usize) -> usize {
    let files = docker(&["exec", &format!("ek{pid}-{node}"), "ls", "/run"]);
    files.matches(".pid").count()
}

fn throughput(result: &serde_json::Value) -> f64 {
    number(&result["flows"][0]["throughput_bps"])
}

/// The containers and networks of the run with this process number, and its directory.
fn belongings(pid: u32) -> Vec<String> {
    let prefix = format!("ek{pid}-");
    let lists = [
        docker(&["ps", "--all", "--format", "{{.Names}}"]),
        docker(&["network", "ls", "--format", "{{.Name}}"]),
    ];
    let named = lists.iter().flat_map(|list| list.lines());
    let mut found: Vec<String> = named
        .filter(|name| name.starts_with(&prefix))
        .map(Into::into)
        .collect();
    let directory = format!("evenkeel-docker.{pid}-");
    let temporary = std::fs::read_dir(std::env::temp_dir()).expect("it is there");
    let names = temporary.map(|entry| entry.expect("an entry").file_name());
    found.extend(
        names
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| name.starts_with(&directory)),
    );
    found
}

/// Sends a signal to the programs of this name in a container of a run.
fn signal_inside(pid: u32, node: usize, program: &str) -> bool {
    let script = format!(
        "found=1; for file in /run/evenkeel-*.pid; do number=$(cat $file); \
         if grep -q '^{program}$' /proc/$number/comm; then kill -s KILL $number; found=0; fi; \
         done; exit $found"
    );
    let container = format!("ek{pid}-{node}");
    let status = Command::new("docker")
        .args(["exec", &container, "sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("the client starts").success()
}

#[test]
#[ignore = "needs containers; .ci/full runs it"]
fn both_versions_of_ip_pass_a_router_that_stamps_them() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("both.toml");
    std::fs::write(&path, crate::support::BOTH_VERSIONS).expect("it can be written");
    let path = path.to_str().expect("a path in UTF-8");
    let (child, _out) = crate::support::start(path, "docker", &[]);
    crate::support::assert_both_versions(&result_of(child));
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn containers_and_virtual_time_agree_and_two_runs_at_once_do_not_meet() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let controllers = ["flows.0.controller=vegas", "flows.0.controller=reno"];
        // A whole number of Reno's saws (7.4 s each) after the warm-up.
        let settings = |controller| [controller, "duration_s=24.8", "warmup_s=10"];
        let runs = controllers.map(|controller| start(&settings(controller)));
        for ((child, _directory), controller) in runs.into_iter().zip(controllers) {
            let pid = child.id();
            let here = result_of(child);
            assert_eq!(here["backend"], "docker");
            assert_eq!(here["flows"][0]["error"], serde_json::Value::Null);
            let there = on_sim(&scenario("dumbbell.toml"), &settings(controller));
            let ratio = throughput(&here) / throughput(&there);
            assert!(
                (0.9..=1.1).contains(&ratio),
                "{controller}: throughput ratio {ratio}"
            );
            assert_eq!(belongings(pid), Vec::<String>::new());
        }
    });
}

#[test]
#[ignore = "needs containers; .ci/full runs it"]
fn cross_traffic_and_files_reach_containers() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("data.bin");
    std::fs::write(&file, vec![7; 300_000]).expect("it can be written");
    let scenario = directory.path().join("file.toml");
    let contents = format!(
        "name = 'file'\nduration_s = 12\nwarmup_s = 1\n\
         [[links]]\nname = 'link'\nfrom = 'a'\nto = 'b'\nrate_bps = 2000000\ndelay_ms = 5\n\
         [[cross]]\nname = 'c'\nkind = 'cbr'\nfrom = 'a'\nto = 'b'\nrate_bps = 500000\n\
         [[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'vegas'\nfrom = 'a'\nto = 'b'\nfile = {file:?}\nverify = true\n"
    );
    std::fs::write(&scenario, contents).expect("it can be written");
    let scenario = scenario.to_str().expect("a path in UTF-8");
    let out = directory.path().join("out");
    let out = out.to_str().expect("a path in UTF-8");
    let arguments = ["run", scenario, "--on", "docker", "--json", "--out", out];
    let output = testbed(&arguments).output().expect("the program starts");
    let result = result(&output);
    let transfers = &result["flows"][0]["transfers"];
    assert_eq!(transfers["completed"], 1, "{result:#}");
    assert_eq!(transfers["bytes"], 300_000);
    assert_eq!(transfers["sha256_verified"], true);
    // After the file the source alone uses the link: 0.5 Mb/s for 11 s, and the file's part of it.
    let bytes = result["links"][0]["forwarded_bytes"].as_f64();
    assert!(bytes.expect("a number") > 650_000.0, "{result:#}");
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn a_sender_in_a_container_sends_nothing_while_it_is_paused() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let (child, directory) = start(&[
            "duration_s=9",
            "warmup_s=1",
            "flows.0.pauses=[{start_s=3, length_s=4}]",
        ]);
        result_of(child);
        let series = std::fs::read(directory.path().join("series.json")).expect("it is there");
        let series: serde_json::Value = serde_json::from_slice(&series).expect("JSON");
        let rates = series["flows"][0]["rate_bps"].as_array().expect("rates");
        // Signals come tenths of a second late, and the queue drains.
        let mean = |from: usize, to: usize| {
            rates[from..to].iter().map(number).sum::<f64>() / (to - from) as f64
        };
        assert!(mean(20, 30) > 0.0, "{rates:?}");
        assert_eq!(mean(50, 65), 0.0, "{rates:?}");
        assert!(mean(80, 90) > 0.0, "{rates:?}");
    });
}

#[test]
#[ignore = "needs containers; .ci/full runs it"]
fn a_run_in_containers_that_is_interrupted_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    // While it builds its network, and while it sends.
    for (nodes, ending, status) in [(1, Signal::INT, 130), (4, Signal::TERM, 143)] {
        let (child, _directory) = start(&["duration_s=100"]);
        let pid = child.id();
        eventually("the containers", || {
            let names = docker(&["ps", "--all", "--format", "{{.Names}}"]);
            let prefix = format!("ek{pid}-");
            names
                .lines()
                .filter(|name| name.starts_with(&prefix))
                .count()
                >= nodes
        });
        if nodes == 4 {
            eventually("the routers", || started(pid, 3) >= 2);
        }
        signal(pid, ending);
        let output = child.wait_with_output().expect("it ends");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert_eq!(belongings(pid), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs containers; .ci/full runs it"]
fn a_router_or_an_application_that_is_killed_in_its_container_ends_the_run_by_name() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    for (node, program, what) in [
        (0, "evenkeel-router", "the router of left"),
        (3, "evenkeel", "the server of bulk"),
    ] {
        let (child, _directory) = start(&["duration_s=100"]);
        let pid = child.id();
        eventually("its program", || signal_inside(pid, node, program));
        let output = child.wait_with_output().expect("it ends");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(what), "{error}");
        assert_eq!(belongings(pid), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs containers; .ci/full runs it"]
fn what_a_killed_run_has_left_in_docker_is_removed_by_the_next_one() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let (mut killed, _directory) = start(&["duration_s=100"]);
    let pid = killed.id();
    eventually("its application", || started(pid, 3) >= 1);
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    assert!(!belongings(pid).is_empty());
    let (next, _directory) = start(&["duration_s=2", "warmup_s=1"]);
    let next_pid = next.id();
    result_of(next);
    assert_eq!(belongings(pid), Vec::<String>::new());
    assert_eq!(belongings(next_pid), Vec::<String>::new());
}

/// Runs the dumbbell in an environment of its own; its exit status and only line of errors.
fn refused(settings: &[&str], environment: &[(&str, &Path)]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let name = scenario("dumbbell.toml");
    let mut command = crate::support::run(&name, "docker", directory.path(), settings);
    let output = command.envs(environment.iter().copied()).output();
    let output = output.expect("the program starts");
    let error = text(&output.stderr);
    assert_eq!(error.lines().count(), 1, "{error}");
    (output.status.code(), error)
}

#[test]
fn without_a_client_or_an_engine_or_with_netems_links_the_reason_is_one_line() {
    let empty = tempfile::tempdir().expect("a directory");
    let (code, error) = refused(&[], &[("PATH", empty.path())]);
    assert_eq!(code, Some(1));
    assert!(error.contains("cannot run docker"), "{error}");
    let (code, error) = refused(&["links.0.emulator=netem"], &[("PATH", empty.path())]);
    assert_eq!(code, Some(2));
    assert!(error.contains("link bottleneck"), "{error}");
    if can_run() {
        let nowhere = Path::new("unix:///nonexistent/docker.sock");
        let (code, error) = refused(&[], &[("DOCKER_HOST", nowhere)]);
        assert_eq!(code, Some(1));
        assert!(error.contains("engine cannot be used"), "{error}");
    }
}

#[test]
fn the_demo_the_dockerfile_and_the_pages_name_this_versions_image() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = [
        "Dockerfile",
        "docs/backends.md",
        "testbed/compose/docker-compose.yml",
    ];
    for file in files {
        let contents = std::fs::read_to_string(repository.join(file)).expect("it is there");
        let named = contents
            .match_indices("evenkeel:")
            .map(|(at, _)| &contents[at..]);
        let is_tag =
            |text: &&str| text["evenkeel:".len()..].starts_with(|c: char| c.is_ascii_digit());
        let mut images = named.filter(is_tag).peekable();
        assert!(images.peek().is_some(), "{file} names no image");
        assert!(
            images.all(|image| image.starts_with(IMAGE)),
            "{file} names another image than {IMAGE}"
        );
    }
}

#[test]
#[ignore = "needs containers; .ci/full runs it"]
fn exec_runs_a_program_in_a_hosts_container_and_passes_its_status_on() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let lossy = scenario("lossy.toml");
    let exec = |script: &str| {
        let setting = ["--set", "links.0.loss=0", "--host", "client"];
        let mut command = testbed(&["exec", &lossy, "--on", "docker"]);
        command.args(setting).args(["--", "sh", "-c", script]);
        let child = spawn(&mut command);
        let pid = child.id();
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(belongings(pid), Vec::<String>::new());
        output
    };
    // The image has no ping; a transfer over the link knows the server by its name, and finds nobody.
    let output = exec("cat; ip -brief address show lo; grep -c server /etc/hosts; exit 7");
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(7),
        "{said}{}",
        text(&output.stderr)
    );
    assert!(
        said.contains("10.0.0.1/32") && said.ends_with("\n1\n"),
        "{said}"
    );
    let output = exec("evenkeel bulk client server --insecure --bytes 1");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("evenkeel: ") && !error.contains("resolve"),
        "{error}"
    );
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn one_report_has_all_four_backends_side_by_side() {
    let uml = ["/usr/bin/linux.uml", "/usr/sbin/linux.uml"]
        .iter()
        .any(|path| Path::new(path).exists());
    if !can_run() || !crate::support::has_namespaces() || !uml {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = [
            "flows.0.controller=reno",
            "duration_s=24.8",
            "warmup_s=10",
            "links.0.emulator=evenkeel",
        ];
        let name = scenario("dumbbell.toml");
        let mut command =
            crate::support::run(&name, "sim,netns,uml,docker", directory.path(), &settings);
        let report = result(&command.output().expect("the program starts"));
        assert_eq!(report["reference"], "sim");
        let backends = report["backends"].as_array().expect("backends");
        for (backend, (name, tolerance)) in backends.iter().zip([
            ("sim", 0.0),
            ("netns", 0.05),
            ("uml", 0.10),
            ("docker", 0.10),
        ]) {
            assert_eq!(backend["backend"], name);
            let difference = number(&backend["difference"]);
            println!("{name}: {:+.1} %", difference * 100.0);
            assert!(difference.abs() <= tolerance, "{name}: {difference}");
            assert!(directory.path().join(name).join("series.json").is_file());
        }
        assert_eq!(backends.len(), 4);
        let page = std::fs::read_to_string(directory.path().join("backends.html")).expect("a page");
        assert_eq!(
            page.matches("<figcaption><code>uml</code>").count(),
            3,
            "its plots"
        );
    });
}
