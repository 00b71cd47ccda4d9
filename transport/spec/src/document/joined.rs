//! Reads two types from one table. serde's own `flatten` would lose the origins of values.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// The name by which [`Joined`] asks for its halves.
pub(super) const JOINED: &str = "$evenkeel_joined";

/// A table with the keys of `A` and those of `B`.
#[derive(Debug, Clone)]
pub struct Joined<A, B>(pub A, pub B);

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Deserialize<'de> for Joined<A, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Both<A, B>(PhantomData<(A, B)>);

        impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Visitor<'de> for Both<A, B> {
            type Value = Joined<A, B>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of a document")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut halves: S) -> Result<Self::Value, S::Error> {
                // As `Halves` expects: first each half only names its keys.
                let _ = (halves.next_element::<A>(), halves.next_element::<B>());
                let missing = || de::Error::custom("is not of a document");
                Ok(Joined(
                    halves.next_element()?.ok_or_else(missing)?,
                    halves.next_element()?.ok_or_else(missing)?,
                ))
            }
        }

        deserializer.deserialize_newtype_struct(JOINED, Both(PhantomData))
    }
}
