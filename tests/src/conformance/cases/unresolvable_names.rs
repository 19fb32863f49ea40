//! A name that nobody has is an error for who asked for one, a notice for all others, and harms no good name.

use std::time::Duration;

use rocketmq_consumer::core::event::NetCause;
use rocketmq_consumer::{ConsumerBuilder, LinkTrouble, Message, NoticeKind, Notices, PeerAddr, StartError};

use super::lookup::NOBODY;
use crate::conformance::scene::{Examined, Scene};
use crate::conformance::time::ends;
use crate::conformance::{Cluster, Host};

const TROUBLE: LinkTrouble = LinkTrouble::Net(NetCause::NameUnknown);

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        let nobody = PeerAddr::new(NOBODY, 9876);
        let builder = || -> ConsumerBuilder<Examined<H>> {
            let builder = ConsumerBuilder::new(runtime.clone(), scene.group.as_str());
            builder
                .subscribe(scene.topic.as_str(), "*")
                .name_server(nobody.to_string())
        };
        let within = Duration::from_millis(300);
        let asked = builder().connect_timeout(within).start(|_: Message| async {});
        let error = ends(runtime, "the start", asked)
            .await
            .expect_err("there is no cluster");
        let troubles = vec![(nobody.clone(), TROUBLE)];
        assert_eq!(
            error,
            StartError::ConnectTimeout {
                after: within,
                troubles
            }
        );

        let waits = builder().start(|_: Message| async {});
        let waits = ends(runtime, "the start", waits).await.expect("good settings");
        let mut notices = waits.notices();
        let told = notice(&mut notices, |kind| {
            *kind
                == NoticeKind::NameServerUnreachable {
                    addr: nobody.clone(),
                    cause: TROUBLE,
                }
        });
        ends(runtime, "the notice", told).await;
        scene.leave(waits).await;

        // Beside a good one.
        scene.send(40);
        let both = scene
            .note_with(scene.consumer().name_server(nobody.to_string()))
            .await;
        scene.all_seen().await;
        scene.leave(both).await;

        // A broker that has registered such a name: told, and made good when it has another one.
        let away = nobody.clone();
        let map = vec![(scene.broker_addr(), away.clone())];
        let lost = scene
            .consumer()
            .client_config(|config| config.set_address_map(map));
        let lost = scene.note_with(lost).await;
        let mut notices = lost.client().notices();
        let told = notice(
            &mut notices,
            |kind| matches!(kind, NoticeKind::LinkDown { cause, .. } if *cause == TROUBLE),
        );
        ends(runtime, "the notice", told).await;
        scene.leave(lost).await;
    });
}

async fn notice(notices: &mut Notices, mut wanted: impl FnMut(&NoticeKind) -> bool) {
    while let Some(notice) = notices.next().await {
        if wanted(&notice.kind) {
            return;
        }
    }
    panic!("the consumer has ended");
}
