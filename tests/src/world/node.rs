use std::collections::BTreeMap;
use std::fmt;

use rocketmq_consumer_core::wire::code::RequestCode;

use super::asked::Asked;
use super::peer::{Dial, Reply};

/// What a test answers in place of the machine.
type Script = Box<dyn FnMut(&Asked) -> Reply>;

/// One address: what a test has arranged for whoever dials it or asks something there.
#[derive(Default)]
pub struct Node {
    scripts: BTreeMap<RequestCode, Script>,
    pub(super) dial: Dial,
    pub(super) is_mute: bool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scripts: Vec<_> = self.scripts.keys().collect();
        f.debug_struct("Node")
            .field("scripts", &scripts)
            .field("dial", &self.dial)
            .field("is_mute", &self.is_mute)
            .finish()
    }
}

impl Node {
    /// From now on requests of this kind are answered by the script.
    pub fn on(&mut self, code: RequestCode, script: impl FnMut(&Asked) -> Reply + 'static) -> &mut Self {
        self.scripts.insert(code, Box::new(script));
        self
    }

    /// Requests of this kind are answered by the machine again.
    pub fn off(&mut self, code: RequestCode) -> &mut Self {
        self.scripts.remove(&code);
        self
    }

    /// What becomes of attempts to connect.
    pub const fn dials(&mut self, dial: Dial) -> &mut Self {
        self.dial = dial;
        self
    }

    /// Whether all bytes to it vanish.
    pub const fn mute(&mut self, mute: bool) -> &mut Self {
        self.is_mute = mute;
        self
    }

    /// What the test wants to be done with a request.
    pub(super) fn reply(&mut self, asked: &Asked) -> Reply {
        let script = self.scripts.get_mut(&asked.code);
        script.map_or(Reply::Model, |script| script(asked))
    }
}
