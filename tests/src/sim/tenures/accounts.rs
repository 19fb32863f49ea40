//! What a rule keeps beside the book.

use super::Tenure;

/// What a rule keeps of each ownership. Nobody asks for that of one that has ended, so none is ever taken out.
#[derive(Debug, Default)]
pub struct Accounts<T> {
    all: Vec<T>,
    /// That of an ownership nothing was kept of.
    empty: T,
}

impl<T: Default> Accounts<T> {
    /// Of this ownership.
    #[must_use]
    pub fn of(&self, tenure: &Tenure) -> &T {
        self.all.get(tenure.no.0 as usize).unwrap_or(&self.empty)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, tenure: &Tenure) -> &mut T {
        let index = tenure.no.0 as usize;
        if self.all.len() <= index {
            self.all.resize_with(index + 1, T::default);
        }
        &mut self.all[index]
    }
}
