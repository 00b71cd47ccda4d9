//! The figures as the papers define them, from what a backend has observed.

mod observations;

pub use observations::{
    FlowObservation, LinkObservation, Observations, QueueObservation, QueueSample, RttSample,
    SojournObservation, Transfer,
};
