use evenkeel_tests::time::epoch;

use super::*;

fn connection() -> Arc<Connection> {
    Connection::new(Arc::default())
}

fn allowed(connection: &Arc<Connection>) -> Allowance {
    allowance(connection, &mut connection.state())
}

fn is(connection: &Arc<Connection>, other: Option<Arc<Connection>>) -> bool {
    other.is_some_and(|other| Arc::ptr_eq(connection, &other))
}

#[test]
fn a_connection_goes_from_the_session_to_the_driver() {
    let ours = connection();
    session_begins(&ours);
    let built = controller_built(connection);
    assert!(Arc::ptr_eq(&ours, &built));
    poller_created();
    assert!(is(&ours, driver_spawned()));
    assert!(driver_spawned().is_none(), "the next future is another's");
}

#[test]
fn without_a_session_of_ours_the_controller_brings_the_connection() {
    let ours = connection();
    let built = controller_built(|| ours.clone());
    assert!(Arc::ptr_eq(&ours, &built));
    poller_created();
    assert!(is(&ours, driver_spawned()));
}

#[test]
fn other_orders_are_not_a_connection() {
    let ours = connection();
    poller_created();
    assert!(driver_spawned().is_none(), "no controller of ours");
    controller_built(|| ours.clone());
    assert!(driver_spawned().is_none(), "no socket of ours");
    poller_created();
    assert!(driver_spawned().is_none());
}

#[test]
fn what_another_endpoint_left_half_begun_is_forgotten() {
    let theirs = connection();
    controller_built(|| theirs.clone());
    clock_read(epoch());
    poller_created();
    assert!(driver_spawned().is_none());
}

#[test]
fn a_connection_that_fails_leaves_nothing() {
    session_begins(&connection());
    let ours = connection();
    let built = controller_built(|| ours.clone());
    assert!(Arc::ptr_eq(&ours, &built), "the session's is gone");
    let weak = Arc::downgrade(&ours);
    drop((ours, built));
    poller_created();
    assert!(weak.upgrade().is_none() && driver_spawned().is_none());
}

#[test]
fn a_path_of_the_connection_being_polled_keeps_its_connection() {
    let ours = connection();
    let poll = Poll::begin(ours.clone(), epoch(), Train::default());
    let path = controller_built(connection);
    assert!(Arc::ptr_eq(&ours, &path));
    poller_created();
    assert!(poll.end().1.is_none() && driver_spawned().is_none());
    assert!(polled().is_none(), "the poll is over");
}

#[test]
fn only_the_connection_being_polled_is_held_back() {
    let (now, ours, other) = (epoch(), connection(), connection());
    for connection in [&ours, &other] {
        connection.new_path(1200);
        connection.state().pacer.set_rate(now, Some(1200));
    }
    let poll = Poll::begin(ours.clone(), now, Train::default());
    assert!(allowed(&ours) == Allowance::Window);
    sent(&ours, &mut ours.state(), 2400);
    assert!(allowed(&ours) == Allowance::Nothing && allowed(&other) == Allowance::Window);
    assert!(poll.end().1.is_some());
    assert!(
        allowed(&ours) == Allowance::Window,
        "outside of a poll the application asks"
    );
}

#[test]
fn only_the_second_question_in_a_row_is_quinns_pacers() {
    let (now, ours, other) = (epoch(), connection(), connection());
    assert!(!is_for_pacer(&ours) && !is_for_pacer(&ours), "no poll");
    let _poll = Poll::begin(ours.clone(), now, Train::default());
    assert!(!is_for_pacer(&ours));
    assert!(!is_for_pacer(&other), "the application asks for another");
    assert!(is_for_pacer(&ours));
    assert!(
        !is_for_pacer(&ours) && is_for_pacer(&ours),
        "the next packet"
    );
    // The window was full: what had been built leaves, or nothing.
    assert!(!is_for_pacer(&ours));
    sent(&ours, &mut ours.state(), 1200);
    assert!(!is_for_pacer(&ours));
    clock_read(now);
    assert!(!is_for_pacer(&ours) && is_for_pacer(&ours));
}

#[test]
fn what_was_not_let_through_is_not_taken_from_the_bucket() {
    let (now, ours) = (epoch(), connection());
    ours.new_path(1200);
    ours.state().pacer.set_rate(now, Some(1200));
    let _poll = Poll::begin(ours.clone(), now, Train::default());
    sent(&ours, &mut ours.state(), 2400);
    assert!(!is_data(&ours));
    assert!(allowed(&ours) == Allowance::Window, "an ACK or a probe");
    // Let through, but nothing was sent; then an ACK, in another attempt.
    clock_read(now);
    sent(&ours, &mut ours.state(), 2400);
    assert!(!is_data(&ours));
    assert!(allowed(&ours) == Allowance::Window);
    sent(&ours, &mut ours.state(), 2400);
    assert!(is_data(&ours) && !is_data(&connection()));
}
