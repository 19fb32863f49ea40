//! placeholder until the colleague's arrives
use super::invariant::Invariant;
/// Every rule.
#[must_use]
pub fn all() -> Vec<Box<dyn Invariant>> {
    Vec::new()
}
