use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whatever happened to an earlier holder.
///
/// No user code runs under any lock of this crate but that of an open store, so a poisoned one can only mean that a
/// thread died between two complete states. A store that panicked is asked again; what it has stored is judged when
/// it is loaded.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
