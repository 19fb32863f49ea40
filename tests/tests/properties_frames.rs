//! Streams of frames in both forms of header: however TCP cuts them, the same frames and the same error.

use bytes::Bytes;
use proptest::prelude::*;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, FrameError};
use rocketmq_consumer_core::wire::link::Reassembler;
use rocketmq_consumer_testing::fuzzing;
use rocketmq_consumer_testing::generate;
use rocketmq_consumer_testing::strategies;

/// The frames of a stream, and why it ended if it did not end well.
fn read(chunks: Vec<Bytes>) -> (Vec<Frame>, Option<FrameError>, usize) {
    let mut link = Reassembler::new(FRAME_LEN_MAX);
    let mut frames = Vec::new();
    for chunk in chunks {
        link.push(chunk);
        loop {
            match link.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error), 0),
            }
        }
    }
    let want = link.want();
    (frames, None, want)
}

proptest! {
    #[test]
    fn any_split_gives_the_same_frames_and_the_same_error(stream in strategies::streams(), cuts in strategies::tapes(6)) {
        let chunks = generate::split(&mut cuts.unstructured(), stream.clone()).expect("the generator is total");
        prop_assert_eq!(chunks.concat(), &stream[..]);
        prop_assert_eq!(read(chunks), read(vec![stream]));
    }

    /// What was written one behind the other is read one after the other.
    #[test]
    fn frames_come_back_whole(frames in strategies::from_generator(|u| {
        (0..u.int_in_range(0..=6_u8)?).map(|_| generate::frame(u)).collect::<generate::Result<Vec<_>>>()
    })) {
        let (read, error, want) = read(vec![frames.concat().into()]);
        prop_assert_eq!((error, want), (None, 0));
        let whole: Vec<_> = frames.iter().map(|frame| Frame::parse(frame.clone(), FRAME_LEN_MAX).expect("our own")).collect();
        prop_assert_eq!(&read, &whole);
        for frame in &read {
            prop_assert!(Header::of(frame).is_ok());
        }
    }

    /// The promises of the fuzz target, over the space of the generator: streams with a few bytes changed.
    #[test]
    fn a_damaged_stream_keeps_the_promises(
        stream in strategies::streams(),
        cut in any::<u8>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut data = vec![cut];
        data.extend(&stream[..]);
        for (place, byte) in edits {
            let place = place.index(data.len());
            data[place] = byte;
        }
        fuzzing::frame_decoder(&data);
    }
}
