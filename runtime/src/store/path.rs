use std::path::{Path, PathBuf};

/// Letters, digits and these stand for themselves, so that folders of ordinary groups, and the Java client's, are
/// found under their names.
const PLAIN: &str = "@#._-";

/// A name as the name of a folder. Two names never share one, and none leads elsewhere.
pub(super) fn folder(name: &str) -> String {
    let mut folder = String::with_capacity(name.len());
    for (index, byte) in name.bytes().enumerate() {
        // A dot in front would hide it, or be the folder above.
        let is_plain = byte.is_ascii_alphanumeric() || PLAIN.as_bytes().contains(&byte);
        if is_plain && (index > 0 || byte != b'.') {
            folder.push(char::from(byte));
        } else {
            folder.push_str(&format!("%{byte:02X}"));
        }
    }
    folder
}

/// A path with an ending more.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_their_folders_and_no_name_leads_elsewhere() {
        for (name, want) in [
            ("orders-2_x", "orders-2_x"),
            ("10.0.0.5@DEFAULT", "10.0.0.5@DEFAULT"),
            ("10.0.0.5@7#12", "10.0.0.5@7#12"),
            ("..", "%2E."),
            (".hidden", "%2Ehidden"),
            ("a/b", "a%2Fb"),
            ("a\\b", "a%5Cb"),
            ("C:", "C%3A"),
            ("50%|x", "50%25%7Cx"),
            ("größe", "gr%C3%B6%C3%9Fe"),
            ("a\0", "a%00"),
        ] {
            assert_eq!(folder(name), want);
        }
    }

    #[test]
    fn an_ending_replaces_nothing() {
        assert_eq!(
            with_ending(Path::new("/a/offsets.json"), ".bak"),
            Path::new("/a/offsets.json.bak")
        );
    }
}
