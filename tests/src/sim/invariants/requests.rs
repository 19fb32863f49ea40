use rocketmq_consumer_core::ids::ConnId;

use crate::sim::seen::{Deed, Life, Sight, Sights};

/// What [`Requests::see`] has to be shown.
pub(in crate::sim) const ENDS: Sights = Sights::of(&[Sight::Disconnected, Sight::Over]);

/// Requests that were written and neither answered nor lost with their link, with what a rule keeps of each.
/// One that ended by its deadline stays until its link ends: from outside nobody sees it end.
///
/// One member has few of them at a time, so they are found by looking through them.
#[derive(Debug)]
pub(in crate::sim) struct Requests<T> {
    /// By the number of the life.
    lives: Vec<Vec<Request<T>>>,
}

/// One request.
#[derive(Debug)]
struct Request<T> {
    conn: ConnId,
    opaque: i32,
    what: T,
}

impl<T> Request<T> {
    fn is(&self, conn: ConnId, opaque: i32) -> bool {
        (self.opaque, self.conn) == (opaque, conn)
    }
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { lives: Vec::new() }
    }
}

impl<T> Requests<T> {
    /// A request was written. Returns what stood under its number.
    pub(in crate::sim) fn asked(&mut self, life: Life, conn: ConnId, opaque: i32, what: T) -> Option<T> {
        let index = life.0 as usize;
        if self.lives.len() <= index {
            self.lives.resize_with(index + 1, Vec::new);
        }
        let requests = &mut self.lives[index];
        if let Some(request) = requests.iter_mut().find(|request| request.is(conn, opaque)) {
            return Some(std::mem::replace(&mut request.what, what));
        }
        requests.push(Request { conn, opaque, what });
        None
    }

    /// Its answer has come.
    pub(in crate::sim) fn answered(&mut self, life: Life, conn: ConnId, opaque: i32) -> Option<T> {
        let requests = self.lives.get_mut(life.0 as usize)?;
        let index = requests.iter().position(|request| request.is(conn, opaque))?;
        Some(requests.swap_remove(index).what)
    }

    /// Takes note of links and processes that end; what is lost with them is given to `lost`.
    #[inline]
    pub(in crate::sim) fn see(&mut self, life: Life, deed: &Deed<'_>, lost: impl FnMut(T)) {
        match *deed {
            Deed::Disconnected { conn, .. } => self.lose(life, |request| request.conn == conn, lost),
            Deed::Killed | Deed::Closed => self.lose(life, |_| true, lost),
            _ => {}
        }
    }

    fn lose(&mut self, life: Life, which: impl Fn(&Request<T>) -> bool, mut lost: impl FnMut(T)) {
        if let Some(requests) = self.lives.get_mut(life.0 as usize) {
            let gone = requests.extract_if(.., |request| which(request));
            gone.for_each(|request| lost(request.what));
        }
    }

    /// Requests of a life that wait for an answer.
    pub(in crate::sim) fn of_life(&self, life: Life) -> impl Iterator<Item = &T> {
        let requests = self.lives.get(life.0 as usize).into_iter().flatten();
        requests.map(|request| &request.what)
    }
}
