//! Tests that cross crates, and the rules of docs/architecture.md: one program, linked once.

mod acp;
mod careful_resume;
mod faults;
mod guided;
mod house_rules;
mod modules;
mod pages;
mod results;
mod ro_vegas;
mod systems;
mod transport;
mod virtual_time;
mod wireshark;
