use bytes::Bytes;
use rocketmq_consumer_core::ids::{ClientId, ConnId, PeerAddr};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::request::{Answer, Request, decode_request, encode_answer, encode_refusal};

/// One life of a connection of one life of a member, seen from outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Whose.
    pub member: ClientId,
    /// Counts the processes that had this id.
    pub life: u32,
    /// Its name within that process.
    pub conn: ConnId,
}

/// A request that a member has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When it was sent.
    pub at: Instant,
    /// On which connection.
    pub link: Link,
    /// To whom.
    pub to: PeerAddr,
    /// What is asked.
    pub code: RequestCode,
    /// The number the answer must carry.
    pub opaque: i32,
    /// Header and body.
    pub frame: Frame,
}

impl Asked {
    /// Reads a frame a member has sent; `None` when it is not a request.
    ///
    /// # Panics
    /// When the bytes are no frame: our own machine wrote them.
    #[must_use]
    pub fn read(at: Instant, link: &Link, to: &PeerAddr, bytes: Bytes) -> Option<Self> {
        let frame = Frame::parse(bytes, FRAME_LEN_MAX).expect("a machine sends whole frames");
        let header = Header::of(&frame).expect("a machine sends headers that can be read");
        let (code, opaque, response) = (header.code, header.opaque, header.is_response());
        drop(header);
        (!response).then(|| Self {
            at,
            link: link.clone(),
            to: to.clone(),
            code: RequestCode(code),
            opaque,
            frame,
        })
    }

    /// The request itself.
    ///
    /// # Panics
    /// When it is one of another kind.
    #[must_use]
    pub fn request<R: Request>(&self) -> R {
        decode_request(&self.frame).expect("the code says which kind of request it is")
    }

    /// The frame of an answer to it.
    ///
    /// # Panics
    /// When the answer is larger than a frame.
    #[must_use]
    pub fn answered<A: Answer>(&self, answer: &A) -> Bytes {
        encode_answer(HeaderForm::Json, self.opaque, answer).expect("answers of tests are small")
    }

    /// The frame of a refusal.
    ///
    /// # Panics
    /// When the remark is larger than a frame.
    #[must_use]
    pub fn refused(&self, code: ResponseCode, remark: &str) -> Bytes {
        encode_refusal(HeaderForm::Json, self.opaque, code, remark).expect("remarks of tests are small")
    }
}
