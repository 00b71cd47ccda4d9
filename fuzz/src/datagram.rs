//! Inputs of `path_header` and `packet`: bytes, and what a router does to the header in them.

use arbitrary::{Result, Unstructured};

use crate::{Operation, read_operations, write_operations};

/// A UDP payload at an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// What is done to the header in it.
    pub operations: Vec<Operation>,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// A packet at a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// What is done to the header in it.
    pub operations: Vec<Operation>,
    /// What `bytes` are.
    pub shape: Shape,
    /// Bytes of the whole packet that are then changed: where (modulo its length) to what.
    pub damage: Vec<(u16, u8)>,
    /// The packet, or its payload.
    pub bytes: Vec<u8>,
}

/// What the bytes of a [`Packet`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The whole packet.
    Whole,
    /// The payload of a packet with right lengths and checksums.
    OverIpv4,
    /// Likewise.
    OverIpv6,
}

impl Payload {
    /// Reads an input.
    pub fn read(input: &[u8]) -> Result<Self> {
        let mut u = Unstructured::new(input);
        Ok(Self {
            operations: read_operations(&mut u)?,
            bytes: u.take_rest().to_vec(),
        })
    }

    /// The input that is read so.
    pub fn write(&self) -> Vec<u8> {
        let mut input = Vec::new();
        write_operations(&self.operations, &mut input);
        input.extend(&self.bytes);
        input
    }
}

impl Packet {
    /// Reads an input.
    pub fn read(input: &[u8]) -> Result<Self> {
        let mut u = Unstructured::new(input);
        let operations = read_operations(&mut u)?;
        let shape = match u.arbitrary::<u8>()? % 3 {
            0 => Shape::Whole,
            1 => Shape::OverIpv4,
            _ => Shape::OverIpv6,
        };
        let damages = u.arbitrary::<u8>()? % 8;
        let damage: Result<_> = (0..damages).map(|_| u.arbitrary()).collect();
        Ok(Self {
            operations,
            shape,
            damage: damage?,
            bytes: u.take_rest().to_vec(),
        })
    }

    /// The input that is read so.
    pub fn write(&self) -> Vec<u8> {
        let mut input = Vec::new();
        write_operations(&self.operations, &mut input);
        input.push(self.shape as u8);
        input.push(self.damage.len() as u8);
        for (at, byte) in &self.damage {
            input.extend(at.to_le_bytes());
            input.push(*byte);
        }
        input.extend(&self.bytes);
        input
    }
}
