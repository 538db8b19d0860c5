//! A vector that stays on the stack while it is short.

/// A vector of up to `N` items in place. Once it has more, all of them are in a `Vec`.
#[derive(Debug)]
pub(crate) struct InlineVec<T, const N: usize> {
    inline: [T; N],
    count: usize,
    spilled: Vec<T>,
}

impl<T: Copy, const N: usize> InlineVec<T, N> {
    /// An empty vector. `fill` initialises unused places.
    pub(crate) fn new(fill: T) -> Self {
        Self { inline: [fill; N], count: 0, spilled: Vec::new() }
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.spilled.is_empty() && self.count < N {
            self.inline[self.count] = item;
            self.count += 1;
        } else {
            self.spill();
            self.spilled.push(item);
        }
    }

    pub(crate) fn extend(&mut self, items: &[T]) {
        let end = self.count + items.len();
        if self.spilled.is_empty() && end <= N {
            self.inline[self.count..end].copy_from_slice(items);
            self.count = end;
        } else {
            self.spill();
            self.spilled.extend_from_slice(items);
        }
    }

    pub(crate) fn pop(&mut self) {
        if self.spilled.is_empty() {
            self.count = self.count.saturating_sub(1);
        } else {
            self.spilled.pop();
            if self.spilled.is_empty() {
                self.count = 0;
            }
        }
    }

    pub(crate) fn truncate(&mut self, count: usize) {
        while self.as_slice().len() > count {
            self.pop();
        }
    }

    /// Keeps the items for which `keeps` holds.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        let mut kept = 0;
        let items = if self.spilled.is_empty() {
            &mut self.inline[..self.count]
        } else {
            &mut self.spilled[..]
        };
        for index in 0..items.len() {
            if keeps(&items[index]) {
                items[kept] = items[index];
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        if self.spilled.is_empty() { &self.inline[..self.count] } else { &self.spilled }
    }

    #[cold]
    fn spill(&mut self) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_vec(steps in proptest::collection::vec((0_u8..5, 0_usize..6), 0..40)) {
            let mut list = InlineVec::<usize, 4>::new(0);
            let mut model = Vec::new();
            for (step, number) in steps {
                match step {
                    0 => { list.push(number); model.push(number); }
                    1 => { list.pop(); model.pop(); }
                    2 => { list.truncate(number); model.truncate(number); }
                    3 => { list.retain(|item| *item != number); model.retain(|item| *item != number); }
                    _ => { list.extend(&[number, 7, 9]); model.extend([number, 7, 9]); }
                }
                prop_assert_eq!(list.as_slice(), model.as_slice());
            }
        }
    }
}
