use rocketmq_consumer_core::action::Action;
use rocketmq_consumer_core::config::ClientConfig;
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

/// A machine, and everything that ever went into it and came out of it.
#[derive(Clone, Debug)]
pub struct Recorder {
    config: ClientConfig,
    seed: Seed,
    origin: (Instant, WallTime),
    state: ConsumerState,
    events: Vec<(Instant, Event)>,
    actions: Vec<Action>,
}

impl Recorder {
    /// A fresh machine.
    ///
    /// # Panics
    /// When the configuration is refused.
    #[must_use]
    pub fn new(config: ClientConfig, seed: Seed, now: Instant, wall: WallTime) -> Self {
        let state = ConsumerState::new(config.clone(), seed, now, wall).expect("a configuration that works");
        Self {
            config,
            seed,
            origin: (now, wall),
            state,
            events: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Feeds an event and returns what the machine wants done for it.
    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        self.events.push((now, event.clone()));
        self.state.handle(now, event);
        let first = self.actions.len();
        while let Some(action) = self.state.poll_action() {
            self.actions.push(action);
        }
        self.actions[first..].to_vec()
    }

    /// The machine.
    #[must_use]
    pub const fn state(&self) -> &ConsumerState {
        &self.state
    }

    /// What went in.
    #[must_use]
    pub fn events(&self) -> &[(Instant, Event)] {
        &self.events
    }

    /// What came out.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// A fresh machine that gets the same events does the same, although it is drained only at the
    /// end.
    ///
    /// # Panics
    /// When it does anything else.
    pub fn assert_replays(&self) {
        let (now, wall) = self.origin;
        let mut again =
            ConsumerState::new(self.config.clone(), self.seed, now, wall).expect("it worked before");
        for (at, event) in &self.events {
            again.handle(*at, event.clone());
        }
        for (index, first) in self.actions.iter().enumerate() {
            let second = again.poll_action();
            assert_eq!(second.as_ref(), Some(first), "action {index} of a replay differs");
        }
        assert_eq!(again.poll_action(), None, "a replay does more than the first run");
        assert_eq!(again.status(), self.state.status(), "a replay ends elsewhere");
    }
}
