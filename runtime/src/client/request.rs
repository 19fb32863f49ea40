use std::time::Duration;

use bytes::Bytes;

/// A request that is not consuming: a code, header fields, a body, and how long to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a request is sent by `Client::call`"]
pub struct Request {
    pub(super) code: i32,
    pub(super) fields: Vec<(Box<str>, Box<str>)>,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
}

impl Request {
    /// A request with this code, no fields, no body, and 3 s to be answered.
    pub const fn new(code: i32) -> Self {
        Self {
            code,
            fields: Vec::new(),
            body: Bytes::new(),
            timeout: Duration::from_secs(3),
        }
    }

    /// Adds a header field.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields
            .push((name.into().into_boxed_str(), value.into().into_boxed_str()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets how long to wait for the answer, connecting included.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}
