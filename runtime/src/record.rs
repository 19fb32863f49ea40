use std::io::{self, Write};

use rocketmq_consumer_core::action::Action;
use rocketmq_consumer_core::config::ClientConfig;
use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::recording::{Start, Writer};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

/// Listens to everything that goes into and comes out of the machine of one client.
///
/// The machine is deterministic: what [`Recorder::start`] and [`Recorder::event`] were given is
/// enough to repeat a run exactly. Called from the driver task, so an implementation should only
/// copy; every microsecond it takes is taken from the client.
pub trait Recorder: Send {
    /// The machine is about to be created from these.
    fn start(&mut self, config: &ClientConfig, seed: Seed, now: Instant, wall: WallTime);

    /// An event is about to be handled.
    fn event(&mut self, now: Instant, event: &Event);

    /// An action came out.
    fn action(&mut self, action: &Action);
}

/// A [`Recorder`] that writes the format of [`core::recording`](rocketmq_consumer_core::recording) to a
/// file or any other writer.
///
/// ```no_run
/// # fn example<R: rocketmq_consumer::Runtime>(
/// #     builder: rocketmq_consumer::ConsumerBuilder<R>,
/// # ) -> std::io::Result<rocketmq_consumer::ConsumerBuilder<R>> {
/// use rocketmq_consumer::RecordTo;
///
/// let file = std::fs::File::create("billing.rmqrec")?;
/// Ok(builder.record(Box::new(RecordTo::new(std::io::BufWriter::new(file)))))
/// # }
/// ```
///
/// It holds what peers sent, bodies of messages included. The writer is called from the driver task
/// once for each record, so give it a buffer, and nothing that waits for long. When it fails the
/// recording ends there, with a line in the log: the client goes on, and what was written up to then is
/// good. It is flushed when the client ends.
pub struct RecordTo<W: Write> {
    writer: W,
    /// Present from the start to the first failure.
    format: Option<Writer>,
    /// One record at a time; kept for its room.
    record: Vec<u8>,
}

impl<W: Write + Send> RecordTo<W> {
    /// A recorder that has not written anything yet.
    pub const fn new(writer: W) -> Self {
        Self {
            writer,
            format: None,
            record: Vec::new(),
        }
    }
}

impl<W: Write> RecordTo<W> {
    fn append(&mut self, write: impl FnOnce(&Writer, &mut Vec<u8>)) {
        let Some(format) = &self.format else { return };
        self.record.clear();
        write(format, &mut self.record);
        self.write_out();
    }

    /// Writes what is in `record`. Half a record may get out; whoever reads drops a cut-off end.
    fn write_out(&mut self) {
        if let Err(error) = self.writer.write_all(&self.record) {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        self.format = None;
        tracing::warn!(target: "rocketmq", %error, "the recording ends here: it cannot be written");
    }
}

impl<W: Write + Send> Recorder for RecordTo<W> {
    fn start(&mut self, config: &ClientConfig, seed: Seed, now: Instant, wall: WallTime) {
        let start = Start {
            config: config.clone(),
            seed,
            now,
            wall,
        };
        self.record.clear();
        self.format = Some(Writer::start(&mut self.record, &start));
        self.write_out();
    }

    fn event(&mut self, now: Instant, event: &Event) {
        self.append(|format, record| format.event(record, now, event));
    }

    fn action(&mut self, action: &Action) {
        self.append(|format, record| format.action(record, action));
    }
}

impl<W: Write> Drop for RecordTo<W> {
    fn drop(&mut self) {
        if self.format.is_some()
            && let Err(error) = self.writer.flush()
        {
            self.give_up(&error);
        }
    }
}

impl<W: Write> std::fmt::Debug for RecordTo<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordTo")
            .field("writing", &self.format.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rocketmq_consumer_core::config::GroupConfig;
    use rocketmq_consumer_core::consumer::ConsumerState;
    use rocketmq_consumer_core::event::AppEvent;
    use rocketmq_consumer_core::recording::Recording;

    use super::*;
    use crate::sync::lock;

    /// Paper for so many bytes.
    #[derive(Clone)]
    struct Paper {
        written: Arc<Mutex<Vec<u8>>>,
        room: usize,
        flushed: Arc<Mutex<u32>>,
    }

    impl Paper {
        fn new(room: usize) -> Self {
            Self {
                written: Arc::default(),
                room,
                flushed: Arc::default(),
            }
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = lock(&self.written);
            let room = self.room.saturating_sub(written.len()).min(bytes.len());
            written.extend_from_slice(&bytes[..room]);
            if room == 0 && !bytes.is_empty() {
                return Err(io::Error::other("the paper is full"));
            }
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            *lock(&self.flushed) += 1;
            Ok(())
        }
    }

    /// Three events of a client that starts a group, recorded as the driver does it.
    fn run(recorder: &mut dyn Recorder) {
        let config = ClientConfig::new("c".into(), vec!["127.0.0.1:9876".parse().unwrap()]);
        let (seed, now, wall) = (Seed(5), Instant::ZERO, WallTime::from_unix_millis(1));
        recorder.start(&config, seed, now, wall);
        let mut machine = ConsumerState::new(config, seed, now, wall).unwrap();
        let mut group = GroupConfig::new("g".into());
        group.subscribe("t".into(), "*");
        let start = AppEvent::StartGroup(Arc::new(group));
        for (event, ms) in [(start.into(), 0), (Event::Wakeup, 5), (Event::Wakeup, 9_000)] {
            let now = Instant::from_millis(ms);
            recorder.event(now, &event);
            machine.handle(now, event);
            while let Some(action) = machine.poll_action() {
                recorder.action(&action);
            }
        }
    }

    #[test]
    fn what_was_written_replays_and_is_flushed_at_the_end() {
        let paper = Paper::new(usize::MAX);
        let mut recorder = RecordTo::new(paper.clone());
        run(&mut recorder);
        assert_eq!(*lock(&paper.flushed), 0);
        drop(recorder);
        assert_eq!(*lock(&paper.flushed), 1);
        let recording = Recording::parse(&lock(&paper.written)).unwrap();
        let replayed = recording.replay().unwrap();
        assert_eq!((replayed.events, recording.cut_off), (3, 0));
        assert!(replayed.actions > 0);
    }

    #[test]
    fn a_writer_that_fails_ends_the_recording_and_what_came_before_is_good() {
        let whole = Paper::new(usize::MAX);
        run(&mut RecordTo::new(whole.clone()));
        let len = lock(&whole.written).len();
        let short = Paper::new(len - 1);
        let mut recorder = RecordTo::new(short.clone());
        run(&mut recorder);
        // Room again, too late: what follows a gap would be worse than nothing.
        recorder.writer.room = usize::MAX;
        run_more(&mut recorder);
        drop(recorder);
        assert_eq!(*lock(&short.flushed), 0);
        let recording = Recording::parse(&lock(&short.written)).unwrap();
        assert!(recording.cut_off > 0);
        assert!(recording.replay().is_ok());
    }

    fn run_more(recorder: &mut dyn Recorder) {
        recorder.event(Instant::from_millis(10_000), &Event::Wakeup);
    }
}
