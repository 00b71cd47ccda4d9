//! Tests of the program `evenkeel-testbed`: one program, linked once.

mod cli;
mod docker;
mod faults;
mod league;
mod manual;
mod netns;
mod own_crate;
mod pages;
mod reproduce;
mod streams;
mod support;
mod uml;
