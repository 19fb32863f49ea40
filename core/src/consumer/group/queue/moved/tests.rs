use super::*;
use IllegalOffsetPolicy as P;
use bytes::Bytes;

use crate::wire::request::pull::PullStatus;

const fn at(offset: i64) -> QueueOffset {
    QueueOffset(offset)
}

/// A master that was asked for 10 and has these bounds.
fn claim(to: i64, min: Option<i64>, max: Option<i64>) -> Claim {
    Claim {
        asked: at(10),
        to: at(to),
        min: min.map(QueueOffset),
        max: max.map(QueueOffset),
        reset: false,
    }
}

const SINCE: WallTime = WallTime::from_unix_millis(77);

/// Everything up to 3 is finished, and the broker has been doubted often enough.
const KNOWN: Evidence = Evidence {
    from_master: true,
    doubts: DOUBTS - 1,
    unfinished: at(3),
    new_since: Some(SINCE),
};

const POLICIES: [P; 5] = [P::Resume, P::Follow, P::Earliest, P::Latest, P::Hold];

/// An answer is not a claim yet: what contradicts itself is left out.
#[test]
fn bounds_that_contradict_each_other_skip_nothing() {
    let answer = |to, min: i64, max: i64| PullAnswer {
        status: PullStatus::OffsetMoved,
        next_begin_offset: at(to),
        min_offset: Some(at(min)),
        max_offset: Some(at(max)),
        suggest_broker_id: None,
        offset_delta: None,
        reset: false,
        messages: Bytes::new(),
    };
    let bounds = |to, min, max| {
        let claim = Claim::of(at(10), &answer(to, min, max));
        (claim.min.map(|min| min.0), claim.max.map(|max| max.0))
    };
    assert_eq!(bounds(10, 7, 7), (Some(7), Some(7)));
    assert_eq!(bounds(10, 8, 7), (None, None));
    let claim = Claim::of(at(10), &answer(10, i64::MAX - 1, 0));
    for policy in POLICIES {
        assert_eq!(
            claim.course(policy, &KNOWN),
            Course::GoTo(at(10), None),
            "{policy:?}"
        );
    }
}

#[test]
fn a_slave_is_never_believed() {
    let mut reset = claim(5, Some(0), Some(20));
    reset.reset = true;
    for claim in [
        claim(0, Some(0), Some(7)),
        claim(12, Some(12), Some(20)),
        claim(5, Some(0), Some(20)),
        reset,
    ] {
        for policy in POLICIES {
            let slave = Evidence {
                from_master: false,
                ..KNOWN
            };
            assert_eq!(claim.course(policy, &slave), Course::AskAgain, "{claim:?}");
        }
    }
}

#[test]
fn a_reset_is_followed_whatever_the_policy_and_whether_the_broker_says_so_or_not() {
    let legal = claim(5, Some(0), Some(20));
    let bare = claim(10, None, None);
    let mut said = claim(0, Some(0), Some(7));
    said.reset = true;
    for (claim, to) in [(legal, 5), (bare, 10), (said, 0)] {
        for policy in POLICIES {
            let fresh = Evidence { doubts: 0, ..KNOWN };
            assert_eq!(
                claim.course(policy, &fresh),
                Course::GoTo(at(to), None),
                "{claim:?}"
            );
        }
    }
}

#[test]
fn an_end_below_what_was_asked_is_told_three_times_before_it_counts() {
    for claim in [
        claim(7, Some(0), Some(7)),
        claim(0, Some(0), Some(0)),
        claim(7, None, None),
    ] {
        for (doubts, doubted) in [(0, true), (1, true), (2, false), (9, false)] {
            let evidence = Evidence { doubts, ..KNOWN };
            for policy in POLICIES {
                let is_doubted = claim.course(policy, &evidence) == Course::AskAgain;
                assert_eq!(is_doubted, doubted, "{claim:?} {doubts} {policy:?}");
            }
        }
    }
    // What has expired does not come back.
    let expired = claim(12, Some(12), Some(20));
    let fresh = Evidence { doubts: 0, ..KNOWN };
    assert_ne!(expired.course(P::Resume, &fresh), Course::AskAgain);
}

#[test]
fn the_policy_decides_what_follows_when_messages_have_expired() {
    let below = Some(OffsetTrouble::BelowMin);
    let known = claim(12, Some(12), Some(20));
    let bare = claim(12, None, None);
    for (policy, want, want_bare) in [
        (
            P::Resume,
            Course::GoTo(at(12), below),
            Course::GoTo(at(12), below),
        ),
        (
            P::Follow,
            Course::GoTo(at(12), below),
            Course::GoTo(at(12), below),
        ),
        (
            P::Earliest,
            Course::GoTo(at(12), below),
            Course::Find(Find::Min, OffsetTrouble::BelowMin),
        ),
        (
            P::Latest,
            Course::GoTo(at(20), below),
            Course::Find(Find::Max, OffsetTrouble::BelowMin),
        ),
        (
            P::Hold,
            Course::Hold(OffsetTrouble::BelowMin),
            Course::Hold(OffsetTrouble::BelowMin),
        ),
    ] {
        assert_eq!(known.course(policy, &KNOWN), want, "{policy:?}");
        assert_eq!(bare.course(policy, &KNOWN), want_bare, "{policy:?}");
    }
}

#[test]
fn the_policy_decides_what_follows_when_the_queue_ends_earlier() {
    let beyond = Some(OffsetTrouble::BeyondEnd);
    let unseen = Evidence {
        new_since: None,
        ..KNOWN
    };
    let ended = claim(7, Some(0), Some(7));
    let (go, find) = (
        |to| Course::GoTo(at(to), beyond),
        |find| Course::Find(find, OffsetTrouble::BeyondEnd),
    );
    for (policy, want, want_unseen) in [
        (P::Resume, find(Find::Since(SINCE)), go(3)),
        (P::Follow, go(3), go(3)),
        (P::Earliest, go(0), go(0)),
        (P::Latest, go(3), go(3)),
        (
            P::Hold,
            Course::Hold(OffsetTrouble::BeyondEnd),
            Course::Hold(OffsetTrouble::BeyondEnd),
        ),
    ] {
        assert_eq!(ended.course(policy, &KNOWN), want, "{policy:?}");
        assert_eq!(ended.course(policy, &unseen), want_unseen, "{policy:?}");
    }
    assert_eq!(claim(7, None, None).course(P::Earliest, &KNOWN), find(Find::Min));
}

#[test]
fn nothing_unfinished_is_passed_that_the_queue_still_has() {
    let unseen = Evidence {
        new_since: None,
        ..KNOWN
    };
    for ((to, min, max), want) in [
        ((8, 0, 8), 3),
        ((2, 0, 2), 2),
        ((8, 5, 8), 5),
        ((0, 0, 9), 0),
        ((0, 0, 0), 0),
    ] {
        let claim = claim(to, Some(min), Some(max));
        let go = Course::GoTo(at(want), Some(OffsetTrouble::BeyondEnd));
        assert_eq!(claim.course(P::Resume, &unseen), go, "{claim:?}");
        assert_eq!(claim.course(P::Follow, &KNOWN), go, "{claim:?}");
    }
    // An empty queue has nothing to search.
    let empty = claim(0, Some(0), Some(0)).course(P::Resume, &KNOWN);
    assert_eq!(empty, Course::GoTo(at(0), Some(OffsetTrouble::BeyondEnd)));
    // What was found by its time does not pass it either.
    for (trouble, found, want) in [
        (Some(OffsetTrouble::BeyondEnd), 7, 3),
        (Some(OffsetTrouble::BeyondEnd), 1, 1),
        (Some(OffsetTrouble::BelowMin), 7, 7),
    ] {
        let moved = Moved {
            claim: claim(7, Some(0), Some(7)),
            trouble,
            unfinished: at(3),
            again: false,
            carried: None,
        };
        assert_eq!(moved.at_most(at(found)), at(want));
    }
}

#[test]
fn what_is_new_is_known_by_the_newest_message_else_by_when_everything_was_there() {
    let ms = WallTime::from_unix_millis;
    let mut seen = Seen::default();
    assert_eq!(seen.new_since(), None);
    seen.everything(ms(1_000_000));
    assert_eq!(seen.new_since(), Some(ms(400_000)), "clocks differ");
    seen.message(ms(90_000));
    seen.message(ms(80_000));
    assert_eq!(seen.new_since(), Some(ms(89_000)), "a message is better evidence");
    let mut seen = Seen::after(Some(ms(95_000)));
    seen.everything(ms(1_000_000));
    assert_eq!(seen.new_since(), Some(ms(95_000)));
    seen.message(ms(90_000));
    assert_eq!(seen.new_since(), Some(ms(95_000)));
    seen.message(ms(97_000));
    assert_eq!(seen.new_since(), Some(ms(96_000)));
}
