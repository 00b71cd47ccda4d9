//! What is to happen, by time.

/// Gives out what is in it in order of time and, within an instant, of scheduling.
///
/// A heap whose nodes have four children each: half as deep as one of two, and as quick to search.
pub(super) struct Queue<T> {
    heap: Vec<(u128, T)>,
    scheduled: u64,
}

impl<T: Copy> Queue<T> {
    pub(super) fn push(&mut self, at: u64, item: T) {
        self.scheduled += 1;
        // Time, then number: one comparison for both.
        let pushed = (u128::from(at) << 64 | u128::from(self.scheduled), item);
        let mut hole = self.heap.len();
        self.heap.push(pushed);
        while let Some(parent) = hole.checked_sub(1).map(|sibling| sibling / 4)
            && self.heap[parent].0 > pushed.0
        {
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = pushed;
    }

    /// When the next is to happen.
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.first().map(|(order, _)| (order >> 64) as u64)
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let last = self.heap.pop()?;
        let Some(&(_, popped)) = self.heap.first() else {
            return Some(last.1);
        };
        let mut hole = 0;
        loop {
            let (child, mut first) = (4 * hole + 1, last);
            let children = self.heap.get(child..self.heap.len().min(child + 4));
            let parent = hole;
            for (nth, next) in children.unwrap_or_default().iter().enumerate() {
                if next.0 < first.0 {
                    (first, hole) = (*next, child + nth);
                }
            }
            self.heap[parent] = first;
            if hole == parent {
                return Some(popped);
            }
        }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            heap: Vec::new(),
            scheduled: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scheduled_comes_in_order_of_time_and_then_of_scheduling() {
        let (mut queue, mut waiting) = (Queue::default(), Vec::new());
        for number in 0..20_000_u32 {
            // Scattered: Knuth's multiplicative hash.
            let random = number.wrapping_mul(2_654_435_761) >> 16;
            if random % 100 < 52 {
                let at = u64::from(random / 100 % 50);
                queue.push(at, number);
                waiting.push((at, number));
            } else {
                let first = waiting.iter().copied().min();
                waiting.retain(|item| Some(*item) != first);
                assert_eq!(queue.next(), first.map(|(at, _)| at));
                assert_eq!(queue.pop(), first.map(|(_, number)| number));
            }
        }
        assert!(waiting.len() > 100);
    }
}
