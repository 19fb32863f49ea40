use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rocketmq_consumer_core::action::{Former, StoreAction};
use rocketmq_consumer_core::event::{Found, StoreError, StoreEvent};
use rocketmq_consumer_core::ids::StoreKey;

use super::{OpenStore, Store};
use crate::driver::{Command, Inbox};
use crate::runtime::Runtime;
use crate::sync::lock;

/// What a group has of its store: nothing before it was loaded, and then, until the group ends, the content to itself.
#[derive(Clone)]
pub(crate) struct Storage {
    store: Arc<dyn Store>,
    open: Arc<Mutex<Option<Box<dyn OpenStore>>>>,
}

impl Storage {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            open: Arc::default(),
        }
    }

    fn load(&self, key: &StoreKey) -> Result<Found, StoreError> {
        let mut slot = lock(&self.open);
        let open = slot.insert(self.store.open(key)?);
        open.load()
            .map_err(|error| StoreError::Failed(error.to_string().into()))
    }

    fn save(&self, content: &Bytes, former: Former) -> Option<Box<str>> {
        match lock(&self.open).as_mut() {
            Some(open) => open
                .save(content, former)
                .err()
                .map(|error| error.to_string().into()),
            None => Some("it was never loaded".into()),
        }
    }

    fn answer(&self, action: StoreAction) -> Option<StoreEvent> {
        // What a panic leaves behind in a store is the store's; what is stored is judged when it is loaded again.
        match action {
            StoreAction::Load { key, seq } => {
                let panicked = |_| Err(StoreError::Failed("the store panicked".into()));
                let found = catch_unwind(AssertUnwindSafe(|| self.load(&key))).unwrap_or_else(panicked);
                let place = catch_unwind(AssertUnwindSafe(|| self.store.place(&key))).unwrap_or_default();
                Some(StoreEvent::Loaded {
                    key,
                    seq,
                    place: place.into(),
                    found: Box::new(found),
                })
            }
            StoreAction::Save {
                key,
                seq,
                bytes,
                former,
            } => {
                let panicked = |_| Some("the store panicked".into());
                let error =
                    catch_unwind(AssertUnwindSafe(|| self.save(&bytes, former))).unwrap_or_else(panicked);
                Some(StoreEvent::Saved { key, seq, error })
            }
            other => {
                tracing::error!(target: "rocketmq", action = ?other, "this driver does not know the action");
                None
            }
        }
    }
}

/// Does what the machine wants on a thread that may block, and tells it how that went. A panic is an answer too, and
/// so is that there is no store.
pub(crate) fn act<R: Runtime>(
    runtime: &R,
    inbox: &Arc<Inbox>,
    storage: Option<&Storage>,
    action: StoreAction,
) {
    let storage = storage
        .cloned()
        .unwrap_or_else(|| Storage::new(Arc::new(NoStore)));
    let inbox = Arc::clone(inbox);
    runtime.spawn_blocking(move || {
        let answer = storage.answer(action);
        // Whoever hears of the group's end starts it again at once, and must find the store free.
        drop(storage);
        if let Some(answer) = answer {
            inbox.push(Command::Store(answer));
        }
    });
}

/// Stands for the store of a group that is not there.
struct NoStore;

impl Store for NoStore {
    fn place(&self, _: &StoreKey) -> String {
        String::from("nowhere")
    }

    fn open(&self, _: &StoreKey) -> Result<Box<dyn OpenStore>, StoreError> {
        Err(StoreError::Failed("the group has no store".into()))
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::action::{Action, AppAction, Refusal, RefusalReason, ShutdownReport};
    use rocketmq_consumer_core::event::{AppEvent, Event};
    use rocketmq_consumer_core::ids::StoreKind;

    use super::*;
    use crate::error::BoxError;
    use crate::testing::{Script, TestRuntime, consume_id};
    use crate::{Client, Consumer, ConsumerBuilder, MemoryStore, MessageModel, Outcome, StartError};

    fn key() -> Box<StoreKey> {
        Box::new(StoreKey {
            group: "g".into(),
            instance: "i".into(),
            kind: StoreKind::Offsets,
        })
    }

    fn started() -> Action {
        let (group, key) = ("g".into(), consume_id(1).group);
        AppAction::GroupStarted { group, key }.into()
    }

    /// A client whose machine loads when a group is to start, lets it begin with whatever is there, saves once, and
    /// lets it end when it is told to.
    fn client(id: &str) -> (Client<TestRuntime>, Script) {
        let script = Script::default();
        script.on_event(|event| match event {
            Event::App(AppEvent::StartGroup(_)) => vec![StoreAction::Load { key: key(), seq: 1 }.into()],
            Event::Store(StoreEvent::Loaded { found, .. }) if found.is_ok() => vec![
                started(),
                StoreAction::Save {
                    key: key(),
                    seq: 2,
                    bytes: "new".into(),
                    former: Former::Backup,
                }
                .into(),
            ],
            Event::Store(StoreEvent::Loaded { place, found, .. }) => {
                assert_eq!(**found, Err(StoreError::InUse));
                let refusal = Refusal {
                    group: Some("g".into()),
                    wish: "start",
                    why: RefusalReason::StoreInUse {
                        place: place.to_string(),
                    },
                };
                vec![AppAction::Refused(Box::new(refusal)).into()]
            }
            Event::App(AppEvent::StopGroup { group, .. }) => {
                let (group, report) = (group.clone(), Box::new(ShutdownReport::default()));
                vec![AppAction::GroupStopped { group, report }.into()]
            }
            Event::App(AppEvent::Shutdown { .. }) => vec![AppAction::Closed.into()],
            _ => Vec::new(),
        });
        let client = Client::carry(TestRuntime::default(), id.into(), script.clone(), None, 1 << 20);
        (client, script)
    }

    async fn start(
        client: &Client<TestRuntime>,
        store: impl Store,
    ) -> Result<Consumer<TestRuntime>, StartError> {
        ConsumerBuilder::new(TestRuntime::default(), "g")
            .subscribe("orders", "*")
            .model(MessageModel::Broadcasting)
            .store(store)
            .client(client)
            .start(|_| async { Outcome::Done })
            .await
    }

    /// The next answer of the store that the machine has got.
    async fn stored(script: &Script) -> StoreEvent {
        loop {
            if let Event::Store(event) = script.event().await {
                return event;
            }
        }
    }

    #[tokio::test]
    async fn what_the_machine_wants_is_done_elsewhere_and_answered() {
        let (client, script) = client("store-1");
        let store = MemoryStore::new();
        let consumer = start(&client, store.clone()).await.unwrap();
        let StoreEvent::Loaded {
            seq, found, place, ..
        } = stored(&script).await
        else {
            panic!("it loads first");
        };
        assert_eq!(
            (seq, *found, &*place),
            (1, Ok(Found::default()), "memory of g as i")
        );
        let StoreEvent::Saved { seq, error, .. } = stored(&script).await else {
            panic!("and saves then");
        };
        assert_eq!((seq, error), (2, None));
        assert_eq!(
            store.open(&key()).map(|_| ()),
            Err(StoreError::InUse),
            "while it lives"
        );
        consumer.shutdown(std::time::Duration::ZERO).await;
        let found = store.open(&key()).expect("it has ended").load().unwrap();
        assert_eq!(found.main, Some("new".into()));
    }

    #[tokio::test]
    async fn a_store_that_is_used_by_another_refuses_the_start() {
        let (client, _script) = client("store-2");
        let store = MemoryStore::new();
        let _other = store.open(&key()).unwrap();
        let error = start(&client, store).await.expect_err("it is in use");
        assert!(
            error
                .to_string()
                .contains("another process uses memory of g as i"),
            "{error}"
        );
    }

    /// A store that panics, first when it saves and then when it is opened.
    struct Panics;

    impl Store for Panics {
        fn place(&self, _: &StoreKey) -> String {
            panic!("no place")
        }

        fn open(&self, _: &StoreKey) -> Result<Box<dyn OpenStore>, StoreError> {
            Ok(Box::new(Self))
        }
    }

    impl OpenStore for Panics {
        fn load(&mut self) -> Result<Found, BoxError> {
            Ok(Found::default())
        }

        fn save(&mut self, _: &Bytes, _: Former) -> Result<(), BoxError> {
            panic!("no space")
        }
    }

    #[tokio::test]
    async fn a_store_that_panics_has_answered() {
        let (client, script) = client("store-3");
        let _consumer = start(&client, Panics).await.unwrap();
        let StoreEvent::Loaded { place, .. } = stored(&script).await else {
            panic!("it loads first");
        };
        assert_eq!(&*place, "");
        let StoreEvent::Saved { error, .. } = stored(&script).await else {
            panic!("and saves then");
        };
        assert_eq!(error.as_deref(), Some("the store panicked"));
    }

    #[tokio::test]
    async fn a_save_for_a_group_that_is_not_there_is_answered_too() {
        let inbox = Arc::<Inbox>::default();
        let action = StoreAction::Save {
            key: key(),
            seq: 7,
            bytes: "x".into(),
            former: Former::Backup,
        };
        act(&TestRuntime::default(), &inbox, None, action);
        let answers = crate::testing::eventually(|| {
            let commands = crate::testing::commands(&inbox);
            (!commands.is_empty()).then_some(commands)
        })
        .await;
        let [
            Command::Store(StoreEvent::Saved {
                seq: 7,
                error: Some(_),
                ..
            }),
        ] = &*answers
        else {
            panic!("one answer");
        };
    }
}
