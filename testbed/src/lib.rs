//! Scenarios on the shipping code, in virtual time.
