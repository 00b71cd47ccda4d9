//! Reads two types from one table. serde's own `flatten` would lose the origins of values.

use std::marker::PhantomData;

use serde::{Deserialize, Deserializer};

/// The name by which [`Joined`] asks for its halves.
pub(super) const JOINED: &str = "$evenkeel_joined";

/// A table with the keys of `A` and those of `B`.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Halves<A, B>")]
#[serde(bound(deserialize = "A: Deserialize<'de>, B: Deserialize<'de>"))]
pub struct Joined<A, B>(pub A, pub B);

/// First each half only names its keys, then both are read.
#[derive(Deserialize)]
#[serde(rename = "$evenkeel_joined")]
struct Halves<A, B> {
    _a_keys: Keys<A>,
    _b_keys: Keys<B>,
    a: A,
    b: B,
}

impl<A, B> From<Halves<A, B>> for Joined<A, B> {
    fn from(halves: Halves<A, B>) -> Self {
        Self(halves.a, halves.b)
    }
}

/// What names its keys when it is read; the reader notes them and refuses to read it yet.
struct Keys<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Keys<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let _ = T::deserialize(deserializer);
        Ok(Self(PhantomData))
    }
}
