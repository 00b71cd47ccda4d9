//! The hosts and links of a run, once they exist.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::error::KernelError;
use super::plan::Plan;
use super::platform::Platform;
use crate::scenario::Scenario;

/// A scenario's network on a platform.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) scenario: Scenario,
    pub(super) plan: Plan,
    pub(super) platform: Arc<dyn Platform>,
}

impl Network {
    /// Creates the hosts of `scenario` and every link that needs no router.
    pub(super) fn create(
        platform: Arc<dyn Platform>,
        scenario: &Scenario,
        interrupted: &AtomicBool,
    ) -> Result<Arc<Self>, KernelError> {
        Ok(Arc::new(Self {
            plan: platform.create(scenario, interrupted)?,
            scenario: scenario.clone(),
            platform,
        }))
    }
}
