//! Objects with names that strict JSON does not have: bare integers and whole objects. Java reads
//! some bodies only in this form, so the braces are ours and only names and values are serde's.

use alloc::vec::Vec;

use serde::Serialize;

/// Writes one object, member by member in the order of the calls.
pub(crate) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> ObjectWriter<'a> {
    /// Appends an object with the members that `fill` gives it.
    pub(crate) fn write(out: &'a mut Vec<u8>, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        out.push(b'{');
        fill(&mut ObjectWriter { out, empty: true });
        out.push(b'}');
    }

    /// A member with a name in quotes.
    pub(crate) fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.entry(name, value);
    }

    /// A member that is an object.
    pub(crate) fn object(&mut self, name: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.name(name);
        ObjectWriter::write(self.out, fill);
    }

    /// A member that is a list of objects, each filled by `fill`.
    pub(crate) fn list<T>(&mut self, name: &str, items: &[T], fill: impl Fn(&T, &mut ObjectWriter<'_>)) {
        self.name(name);
        self.out.push(b'[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            ObjectWriter::write(self.out, |object| fill(item, object));
        }
        self.out.push(b']');
    }

    /// A member named by whatever `name` is in JSON: an integer, an object.
    pub(crate) fn entry<K: Serialize + ?Sized, T: Serialize + ?Sized>(&mut self, name: &K, value: &T) {
        self.name(name);
        self.out.extend_from_slice(&to_json(value));
    }

    fn name<K: Serialize + ?Sized>(&mut self, name: &K) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out.extend_from_slice(&to_json(name));
        self.out.push(b':');
    }
}

/// A value in strict JSON.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("our bodies have text or integer names and no foreign Serialize")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fastjson::to_strict;

    #[test]
    fn names_are_written_as_they_are() {
        let mut out = Vec::new();
        ObjectWriter::write(&mut out, |object| {
            object.object("empty", |_| ());
            object.object("ids", |ids| {
                ids.entry(&-1, "a");
                ids.entry(&0, "\"");
            });
            object.object("table", |table| {
                table.entry(&serde_json::json!({ "q": 1 }), &[2, 3])
            });
            object.member("last", &None::<()>);
        });
        let text = r#"{"empty":{},"ids":{-1:"a",0:"\""},"table":{{"q":1}:[2,3]},"last":null}"#;
        assert_eq!(core::str::from_utf8(&out), Ok(text));
        assert!(to_strict(&out).is_ok());
    }
}
