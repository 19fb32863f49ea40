//! The cluster as a whole, over its wire.

use super::bench::*;

#[test]
fn a_message_that_was_sent_is_pulled() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    let sent = bench.do_it(conn, &send_to("T", "TAGS\u{1}A\u{2}"));
    assert_eq!(sent.offset.map(|offset| offset.0), Some(0));
    let pulled = bench.do_it(conn, &pull(0));
    assert_eq!(pulled.next_begin_offset.0, 1);
}
