//! What a group wants of a topic.

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::wire::subscription::Subscription;

use super::dice::{pick, rarely};
use super::names::{topic, word};

/// `Aa` and `BB` have one hash; so have `AaAa`, `AaBB` and `BBBB`.
const TAGS: [&str; 9] = ["TagA", "Aa", "BB", "AaAa", "AaBB", "标签", "😀", "a|b", "*"];
const BLANKS: [&str; 7] = ["", " ", "  ", "\t", "\u{1}", "\u{a0}", "\n"];

/// A tag expression as users write them: everything, one tag, several with odd blanks and empty pieces
/// between them, blanks only, separators only.
pub fn expression(u: &mut Unstructured<'_>) -> Result<String> {
    let pieces = u.int_in_range(0..=5_u8)?;
    if pieces == 0 {
        return Ok(pick(u, &["*", "", " ", "||", "  ||  ", " * "])?.into());
    }
    let mut written = String::new();
    for piece in 0..pieces {
        if piece > 0 {
            written.push_str("||");
        }
        written.push_str(pick(u, &BLANKS)?);
        match u.int_in_range(0..=9_u8)? {
            0 => {}
            1 => written.push_str(&word(u)?),
            _ => written.push_str(pick(u, &TAGS)?),
        }
        written.push_str(pick(u, &BLANKS)?);
    }
    Ok(written)
}

/// A subscription to one topic: tags, now and then everything or an SQL condition.
pub fn subscription(u: &mut Unstructured<'_>) -> Result<Subscription> {
    let topic = topic(u)?;
    if rarely(u, 6)? {
        let sql = Subscription::sql92(topic.clone(), "n > 3 AND k = 'x'");
        return Ok(sql.unwrap_or_else(|_| Subscription::all(topic)));
    }
    let written = expression(u)?;
    // Separators without a tag are no expression; everything is what is left.
    Ok(Subscription::tagged(topic.clone(), &written).unwrap_or_else(|_| Subscription::all(topic)))
}
