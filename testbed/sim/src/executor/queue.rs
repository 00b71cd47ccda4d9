//! What is to happen, by time.

/// Gives out what is in it in order of time and, within an instant, of scheduling.
///
/// A heap whose nodes have four children each: half as deep as one of two, and as quick to search.
/// A node is one number: its time, then how many were scheduled before it, then what is to happen.
#[derive(Default)]
pub(super) struct Queue {
    heap: Vec<u128>,
    scheduled: u64,
}

/// Something that is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheduled {
    pub(super) at: u64,
    /// How many were scheduled up to this one.
    pub(super) number: u64,
    /// What it is: less than [`ITEMS`].
    pub(super) item: u32,
}

/// Bits of a node for the item. The others let a run schedule 2^40 of them: weeks.
const ITEM_BITS: u32 = 24;

/// How many different items there can be.
pub(super) const ITEMS: u32 = 1 << ITEM_BITS;

impl Queue {
    pub(super) fn push(&mut self, at: u64, item: u32) {
        debug_assert!(item < ITEMS);
        self.scheduled += 1;
        assert!(
            self.scheduled <= u64::MAX >> ITEM_BITS,
            "a run ends before 2^40 events"
        );
        let order = self.scheduled << ITEM_BITS | u64::from(item);
        let pushed = u128::from(at) << 64 | u128::from(order);
        let mut hole = self.heap.len();
        self.heap.push(pushed);
        while let Some(parent) = hole.checked_sub(1).map(|sibling| sibling / 4)
            && self.heap[parent] > pushed
        {
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = pushed;
    }

    /// How many were scheduled.
    pub(super) fn scheduled(&self) -> u64 {
        self.scheduled
    }

    /// When the next is to happen.
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.first().map(|node| (node >> 64) as u64)
    }

    pub(super) fn pop(&mut self) -> Option<Scheduled> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first_mut() else {
            return Some(scheduled(last));
        };
        let popped = std::mem::replace(first, last);
        let mut hole = 0;
        loop {
            let child = 4 * hole + 1;
            let children = self.heap.get(child..).unwrap_or_default();
            let (first, nth) = match children.first_chunk() {
                Some(children) => first_of(children),
                None => {
                    let Some(first) = children.iter().min() else {
                        break;
                    };
                    let nth = children.iter().position(|child| child == first);
                    (*first, nth.unwrap_or_default())
                }
            };
            if last < first {
                break;
            }
            self.heap[hole] = first;
            hole = child + nth;
        }
        self.heap[hole] = last;
        Some(scheduled(popped))
    }
}

/// The least of four, and which it is. Compiles to code without jumps, which no processor could
/// predict.
fn first_of(&[a, b, c, d]: &[u128; 4]) -> (u128, usize) {
    let left = if b < a { (b, 1) } else { (a, 0) };
    let right = if d < c { (d, 3) } else { (c, 2) };
    if right.0 < left.0 { right } else { left }
}

fn scheduled(node: u128) -> Scheduled {
    let order = node as u64;
    Scheduled {
        at: (node >> 64) as u64,
        number: order >> ITEM_BITS,
        item: order as u32 % ITEMS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scheduled_comes_in_order_of_time_and_then_of_scheduling() {
        let (mut queue, mut waiting) = (Queue::default(), Vec::new());
        for step in 0..20_000_u32 {
            // Scattered: Knuth's multiplicative hash.
            let random = step.wrapping_mul(2_654_435_761) >> 16;
            if random % 100 < 52 {
                let at = u64::from(random / 100 % 50);
                let item = random % ITEMS;
                queue.push(at, item);
                let number = queue.scheduled();
                waiting.push(Scheduled { at, number, item });
            } else {
                let order = |next: &Scheduled| (next.at, next.number);
                let first = waiting.iter().copied().min_by_key(order);
                waiting.retain(|next| Some(*next) != first);
                assert_eq!(queue.next(), first.map(|next| next.at));
                assert_eq!(queue.pop(), first);
            }
        }
        assert!(waiting.len() > 100);
    }
}
