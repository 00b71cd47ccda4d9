use super::*;

#[expect(clippy::disallowed_methods, reason = "an origin for virtual time")]
fn executor() -> Executor {
    Executor::new(Instant::now())
}

fn log() -> Arc<Mutex<Vec<(u64, &'static str)>>> {
    Arc::default()
}

#[test]
fn timers_fire_in_order_of_time_and_then_of_scheduling() {
    let mut executor = executor();
    let runtime = SimRuntime(executor.core().clone());
    let log = log();
    for (ms, name) in [(20, "b"), (10, "a"), (20, "c")] {
        let (runtime, log) = (runtime.clone(), log.clone());
        executor.core().spawn(Box::pin(async move {
            runtime
                .sleep_until(runtime.epoch() + Duration::from_millis(ms))
                .await;
            let at = runtime.elapsed().as_millis() as u64;
            log.lock().unwrap().push((at, name));
        }));
    }
    let end = runtime.epoch() + Duration::from_secs(1);
    executor.run_until(end, |_, _| {});
    assert_eq!(*log.lock().unwrap(), [(10, "a"), (20, "b"), (20, "c")]);
    assert_eq!(runtime.elapsed(), Duration::from_secs(1));
}

#[test]
fn a_timer_moved_earlier_or_later_fires_once_at_its_last_deadline() {
    let mut executor = executor();
    let runtime = SimRuntime(executor.core().clone());
    let log = log();
    let at = move |ms| runtime.epoch() + Duration::from_millis(ms);
    let runtime = SimRuntime(executor.core().clone());
    let (seen, rt) = (log.clone(), runtime.clone());
    let deadline = at.clone();
    executor.core().spawn(Box::pin(async move {
        let mut timer = rt.new_timer(deadline(50));
        timer.as_mut().reset(deadline(10));
        timer.as_mut().reset(deadline(70));
        std::future::poll_fn(|cx| timer.as_mut().poll(cx)).await;
        seen.lock()
            .unwrap()
            .push((rt.elapsed().as_millis() as u64, "timer"));
        timer.as_mut().reset(deadline(90));
        std::future::poll_fn(|cx| timer.as_mut().poll(cx)).await;
        seen.lock()
            .unwrap()
            .push((rt.elapsed().as_millis() as u64, "again"));
    }));
    executor.run_until(at(200), |_, _| {});
    assert_eq!(*log.lock().unwrap(), [(70, "timer"), (90, "again")]);
}

#[test]
fn a_dropped_timer_leaves_its_slot_to_the_next_one() {
    let mut executor = executor();
    let runtime = SimRuntime(executor.core().clone());
    let log = log();
    let (seen, rt) = (log.clone(), runtime.clone());
    executor.core().spawn(Box::pin(async move {
        drop(rt.new_timer(rt.epoch() + Duration::from_millis(5)));
        rt.sleep_until(rt.epoch() + Duration::from_millis(30)).await;
        seen.lock()
            .unwrap()
            .push((rt.elapsed().as_millis() as u64, "second"));
    }));
    executor.run_until(runtime.epoch() + Duration::from_millis(100), |_, _| {});
    assert_eq!(*log.lock().unwrap(), [(30, "second")]);
}

#[test]
fn link_events_are_handed_out_at_their_instant() {
    let mut executor = executor();
    let epoch = executor.core().epoch;
    executor
        .core()
        .schedule_link(epoch + Duration::from_millis(3), 7);
    executor
        .core()
        .schedule_link(epoch + Duration::from_millis(1), 9);
    let mut seen = Vec::new();
    executor.run_until(epoch + Duration::from_millis(2), |now, link| {
        seen.push((now - epoch, link));
    });
    assert_eq!(seen, [(Duration::from_millis(1), 9)]);
    executor.run_until(epoch + Duration::from_millis(9), |now, link| {
        seen.push((now - epoch, link));
    });
    assert_eq!(seen[1], (Duration::from_millis(3), 7));
}

#[test]
fn the_date_of_tokens_is_virtual_too() {
    let mut executor = executor();
    let runtime = SimRuntime(executor.core().clone());
    let before = TimeSource::now(&runtime);
    executor.run_until(runtime.epoch() + Duration::from_secs(20), |_, _| {});
    let passed = TimeSource::now(&runtime).duration_since(before);
    assert_eq!(passed.unwrap(), Duration::from_secs(20));
}
