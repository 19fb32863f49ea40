use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a panic left is still good: a case that failed is told of by its own panic.
pub(super) fn lock<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
