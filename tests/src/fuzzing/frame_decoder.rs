//! Streams of frames, whole and in pieces.

use bytes::Bytes;
use rocketmq_consumer_core::wire::command::{FLAG_RESPONSE, Header, Language};
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, FrameError, HeaderForm};
use rocketmq_consumer_core::wire::link::Reassembler;

/// The largest length word here, in bytes: small enough to be reached.
const LEN_MAX: u32 = 4_096;

/// Reads bytes as a peer's stream.
///
/// The first byte says into which pieces the rest is cut. However it is cut, the frames are the same
/// and so is the error at their end. A header that can be read can be written again in both forms,
/// and then says the same.
///
/// # Panics
///
/// When one of these does not hold.
pub fn frame_decoder(data: &[u8]) {
    let Some((&cut, stream)) = data.split_first() else {
        return;
    };
    let stream = Bytes::copy_from_slice(stream);
    let whole = read(std::iter::once(stream.clone()), false);
    assert_eq!(
        read(pieces(stream.clone(), cut), false),
        whole,
        "in pieces, read at once"
    );
    assert_eq!(
        read(pieces(stream.clone(), cut), true),
        whole,
        "in pieces, read late"
    );
    let taken: usize = whole
        .0
        .iter()
        .map(|frame| 8 + frame.header.len() + frame.body.len())
        .sum();
    assert!(taken <= stream.len(), "no byte is read twice");
    for frame in &whole.0 {
        if let Ok(header) = Header::of(frame) {
            written_again(frame, &header);
        }
    }
}

/// The frames of a stream, and why it ended if it did not end well.
fn read(chunks: impl Iterator<Item = Bytes>, late: bool) -> (Vec<Frame>, Option<FrameError>) {
    let mut link = Reassembler::new(LEN_MAX);
    let mut frames = Vec::new();
    let mut failed = None;
    for chunk in chunks {
        link.push(chunk);
        if !late {
            failed = drain(&mut link, &mut frames);
        }
    }
    failed = failed.or_else(|| drain(&mut link, &mut frames));
    assert!(
        link.want() <= LEN_MAX as usize + 4,
        "nobody waits for more than a frame"
    );
    (frames, failed)
}

fn drain(link: &mut Reassembler, frames: &mut Vec<Frame>) -> Option<FrameError> {
    loop {
        match link.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return None,
            Err(error) => {
                assert_eq!(link.next_frame(), Err(error), "an error stays");
                return Some(error);
            }
        }
    }
}

/// Pieces of 1 to 16 bytes, by turns long and short.
fn pieces(mut stream: Bytes, cut: u8) -> impl Iterator<Item = Bytes> {
    let lengths = [usize::from(cut >> 4) + 1, usize::from(cut & 15) + 1];
    lengths.into_iter().cycle().map_while(move |len| {
        let piece = stream.split_to(len.min(stream.len()));
        (!piece.is_empty()).then_some(piece)
    })
}

fn written_again(frame: &Frame, header: &Header<'_>) {
    let _ = (
        header.is_response(),
        header.is_oneway(),
        header.flag & FLAG_RESPONSE,
    );
    let fields: usize = header
        .ext
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert!(fields <= 3 * frame.header.len(), "fields come from the header");
    for form in [HeaderForm::Json, HeaderForm::Rocketmq] {
        let bytes = header
            .to_command(&frame.body)
            .encode(form)
            .expect("it came in a frame of 4 kB");
        let again = Frame::parse(bytes, FRAME_LEN_MAX).expect("our own frame");
        let second = Header::of(&again).expect("our own header");
        assert_eq!(again.body, frame.body);
        assert_eq!(
            (second.code, second.version, second.opaque, second.flag),
            (header.code, header.version, header.opaque, header.flag)
        );
        assert_eq!(second.language, Some(header.language.unwrap_or(Language::Other)));
        // An empty remark is none; so is an empty field in the binary form.
        assert_eq!(
            second.remark,
            header.remark.clone().filter(|remark| !remark.is_empty())
        );
        let binary = again.form == HeaderForm::Rocketmq;
        let kept = |(name, value): &(&str, &str)| !binary || !(name.is_empty() || value.is_empty());
        assert!(
            second.ext.iter().eq(header.ext.iter().filter(kept)),
            "{:?}",
            header.ext
        );
    }
}
