//! Requests of the application that are not consuming: sent as they are, answered as they come.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;

use bytes::Bytes;

use crate::action::{AppAction, CallAnswer, CallError};
use crate::consumer::cx::Cx;
use crate::event::Call;
use crate::ids::CallId;
use crate::wire::command::{Command, ExtWriter, Header, Language, VERSION, WriteExt};
use crate::wire::frame::{FrameError, HeaderForm};

/// Calls that may be open at once.
const CALLS_MAX: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    open: BTreeSet<CallId>,
}

impl Calls {
    /// False when the id is in use or too many calls are open.
    pub(crate) fn begin(&mut self, id: CallId) -> bool {
        self.open.len() < CALLS_MAX && self.open.insert(id)
    }

    pub(crate) fn answered(&mut self, cx: &mut Cx<'_>, id: CallId, header: &Header<'_>, body: &Bytes) {
        if !self.open.remove(&id) {
            return;
        }
        // What a code means is for the caller to say, who knows the request.
        let result = Ok(CallAnswer {
            code: header.code,
            remark: header.remark.as_deref().map(String::from).unwrap_or_default(),
            fields: header
                .ext
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            body: body.clone(),
        });
        cx.tell(answer(id, result));
    }

    pub(crate) fn failed(&mut self, cx: &mut Cx<'_>, id: CallId, error: CallError) {
        if self.open.remove(&id) {
            cx.tell(answer(id, Err(error)));
        }
    }

    /// The client closes.
    pub(crate) fn fail_all(&mut self, cx: &mut Cx<'_>) {
        for id in core::mem::take(&mut self.open) {
            cx.tell(answer(id, Err(CallError::Closed)));
        }
    }
}

pub(crate) fn answer(id: CallId, result: Result<CallAnswer, CallError>) -> AppAction {
    AppAction::Answer {
        id,
        result: Box::new(result),
    }
}

/// The header fields of a call.
struct Fields<'a>(&'a [(Box<str>, Box<str>)]);

impl WriteExt for Fields<'_> {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        for (name, value) in self.0 {
            out.text(name, value);
        }
    }
}

pub(crate) fn encode(call: &Call, form: HeaderForm, opaque: i32) -> Result<Bytes, FrameError> {
    let command = Command {
        code: call.code,
        language: Language::Rust,
        version: VERSION,
        opaque,
        flag: 0,
        remark: None,
        ext: &Fields(&call.fields),
        body: &call.body,
    };
    command.encode(form)
}
