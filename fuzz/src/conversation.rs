//! Inputs of `endpoint`: what happens to two ends of a path, step by step.

use arbitrary::{Result, Unstructured};

use crate::{Operation, read_operations, write_operations};

/// What happens next. Of two ends, and of the two connections between them, an even number is one
/// and an odd number the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Time passes, in microseconds.
    Wait(u32),
    /// An end sends packets.
    Send {
        /// Which end.
        end: u8,
        /// On which connection.
        connection: u8,
        /// How many packets, modulo 16 and at least one.
        packets: u8,
        /// Bytes in each, in eights, and at least one.
        size: u8,
        /// The first byte of each. 0x40 is set in it (RFC 9000, section 17: the fixed bit).
        first: u8,
    },
    /// The system gives an end what has arrived at one moment.
    Arrive {
        /// Which end.
        end: u8,
        /// Even from the other end, odd from elsewhere.
        from: u8,
        /// Bytes in each datagram; 0 as in the first piece.
        stride: u8,
        /// What it consists of, one behind the other.
        pieces: Vec<Piece>,
    },
    /// An end learns that its address has changed.
    Rebind {
        /// Which end.
        end: u8,
        /// In which connection.
        connection: u8,
    },
    /// An end's controller follows a router's feedback: nobody's, ACP, RCP, XCP, modulo 4.
    Follow {
        /// Which end.
        end: u8,
        /// In which connection.
        connection: u8,
        /// Whose.
        feedback: u8,
    },
}

/// Bytes that arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Invented, fewer than 256.
    Invented(Vec<u8>),
    /// A datagram that the other end has sent.
    Sent {
        /// On which connection.
        connection: u8,
        /// How many it has sent since, modulo their number.
        before: u8,
        /// What routers do to it.
        operations: Vec<Operation>,
        /// And what nobody may: where (modulo its length) which bits flip.
        damage: Option<(u8, u8)>,
    },
}

/// Steps in one input at most.
const MOST_STEPS: usize = 50;

/// Pieces in one step at most.
const MOST_PIECES: u8 = 8;

/// Reads an input.
pub fn read(input: &[u8]) -> Result<Vec<Step>> {
    let mut u = Unstructured::new(input);
    let mut steps = Vec::new();
    while !u.is_empty() && steps.len() < MOST_STEPS {
        steps.push(Step::read(&mut u)?);
    }
    Ok(steps)
}

/// The input that is read so.
pub fn write(steps: &[Step]) -> Vec<u8> {
    steps.iter().flat_map(Step::write).collect()
}

impl Step {
    fn read(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match u.arbitrary::<u8>()? % 5 {
            0 => Self::Wait(u.arbitrary()?),
            1 => {
                let (end, connection, packets, size, first) = u.arbitrary()?;
                Self::Send {
                    end,
                    connection,
                    packets,
                    size,
                    first,
                }
            }
            2 => {
                let (end, from, stride, pieces): (_, _, _, u8) = u.arbitrary()?;
                let pieces: Result<_> = (0..pieces % MOST_PIECES).map(|_| Piece::read(u)).collect();
                Self::Arrive {
                    end,
                    from,
                    stride,
                    pieces: pieces?,
                }
            }
            3 => {
                let (end, connection) = u.arbitrary()?;
                Self::Rebind { end, connection }
            }
            _ => {
                let (end, connection, feedback) = u.arbitrary()?;
                Self::Follow {
                    end,
                    connection,
                    feedback,
                }
            }
        })
    }

    fn write(&self) -> Vec<u8> {
        match self {
            Self::Wait(time) => [&[0], &time.to_le_bytes()[..]].concat(),
            Self::Send {
                end,
                connection,
                packets,
                size,
                first,
            } => vec![1, *end, *connection, *packets, *size, *first],
            Self::Arrive {
                end,
                from,
                stride,
                pieces,
            } => {
                assert!(pieces.len() < usize::from(MOST_PIECES));
                let mut bytes = vec![2, *end, *from, *stride, pieces.len() as u8];
                for piece in pieces {
                    piece.write(&mut bytes);
                }
                bytes
            }
            Self::Rebind { end, connection } => vec![3, *end, *connection],
            Self::Follow {
                end,
                connection,
                feedback,
            } => vec![4, *end, *connection, *feedback],
        }
    }
}

impl Piece {
    fn read(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match u.arbitrary::<u8>()? % 3 {
            0 => {
                let len = usize::from(u.arbitrary::<u8>()?).min(u.len());
                Self::Invented(u.bytes(len)?.to_vec())
            }
            damaged => {
                let (connection, before) = u.arbitrary()?;
                Self::Sent {
                    connection,
                    before,
                    operations: read_operations(u)?,
                    damage: (damaged == 2).then(|| u.arbitrary()).transpose()?,
                }
            }
        })
    }

    fn write(&self, input: &mut Vec<u8>) {
        match self {
            Self::Invented(bytes) => {
                let len = u8::try_from(bytes.len()).expect("fewer than 256 bytes");
                input.extend([0, len]);
                input.extend(bytes);
            }
            Self::Sent {
                connection,
                before,
                operations,
                damage,
            } => {
                input.extend([1 + u8::from(damage.is_some()), *connection, *before]);
                write_operations(operations, input);
                input.extend(damage.iter().flat_map(|(at, flips)| [*at, *flips]));
            }
        }
    }
}
