//! The house keeps its floors: what ARCHITECTURE.md says of imports is true of every file of this crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the top floor down. A room imports only from floors below its own.
const FLOORS: [&[&str]; 8] = [
    &["recording"],
    &["consumer", "broker"],
    &["rpc"],
    &VOCABULARY,
    &["allocate"],
    &["wire"],
    &["step"],
    &["time", "ids", "rate"],
];

/// One floor, on which events may speak of messages.
const VOCABULARY: [&str; 6] = ["action", "config", "event", "message", "notice", "status"];

/// A module: the names that lead to it.
type Module = Vec<String>;

#[test]
fn no_import_runs_up() {
    let floor = |room: &str| {
        let found = FLOORS.iter().position(|floor| floor.contains(&room));
        found.unwrap_or_else(|| panic!("{room} is on no floor"))
    };
    for (from, to) in imports() {
        let (room, other) = (from[0].as_str(), to[0].as_str());
        let are_words = VOCABULARY.contains(&room) && VOCABULARY.contains(&other);
        let is_allowed = room == other || are_words || floor(room) < floor(other);
        assert!(is_allowed, "{} imports {}", from.join("::"), to.join("::"));
    }
}

#[test]
fn no_two_files_import_each_other() {
    let imports = imports();
    assert!(imports.len() > 300, "imports are found: {}", imports.len());
    for (from, to) in &imports {
        let are_family = from.starts_with(to) || to.starts_with(from);
        let is_mutual = imports.contains(&(to.clone(), from.clone()));
        assert!(
            are_family || !is_mutual,
            "{} and {} import each other",
            from.join("::"),
            to.join("::")
        );
    }
}

/// Rooms whose own rooms are on the map one by one.
const MAPPED: [&[&str]; 4] = [
    &[],
    &["consumer"],
    &["consumer", "group"],
    &["consumer", "group", "queue"],
];

#[test]
fn every_room_is_on_the_map() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = fs::read_to_string(root.join("../ARCHITECTURE.md")).expect("the map of the house");
    let names: BTreeSet<&str> = map
        .split('`')
        .skip(1)
        .step_by(2)
        .flat_map(|named| named.split(|c: char| c != '_' && !c.is_alphanumeric()))
        .collect();
    let mut files = BTreeMap::new();
    collect(&root.join("src"), &root.join("src"), &mut files);
    let mut rooms = 0;
    for module in files.keys() {
        let Some((name, parents)) = module.split_last() else {
            continue;
        };
        if MAPPED.iter().any(|mapped| parents == *mapped) {
            rooms += 1;
            assert!(
                names.contains(name.as_str()),
                "{} is not there",
                module.join("::")
            );
        }
    }
    assert!(rooms > 60, "rooms are found: {rooms}");
}

#[test]
fn paths_are_found_in_every_form() {
    let text =
        "use crate::a::{b, c::{D, e::F}, self};\nfn f(x: super::g::H) { crate::i::j(x) } // crate::k\n";
    let module = ["m".to_owned(), "n".to_owned()];
    let found: Vec<String> = paths(&without_comments(text), &module)
        .iter()
        .map(|path| path.join("::"))
        .collect();
    assert_eq!(
        found,
        ["a::b", "a::c::D", "a::c::e::F", "a::self", "i::j", "m::g::H"]
    );
}

/// Which module imports which; tests may import anything.
fn imports() -> BTreeSet<(Module, Module)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = BTreeMap::new();
    collect(&root, &root, &mut files);
    let mut imports = BTreeSet::new();
    for (module, file) in &files {
        let text = fs::read_to_string(file).expect("a file that was listed can be read");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for mut path in paths(&without_comments(code), module) {
            while !path.is_empty() && !files.contains_key(&path) {
                path.pop();
            }
            if !module.is_empty() && !path.is_empty() && path != *module {
                imports.insert((module.clone(), path));
            }
        }
    }
    imports
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<Module, PathBuf>) {
    for entry in fs::read_dir(folder).expect("sources are there") {
        let path = entry.expect("sources can be listed").path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if matches!(name, "tests" | "bench") {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let inside = path.strip_prefix(root).expect("it lies below").with_extension("");
            let names = inside.iter().filter_map(|name| name.to_str());
            let module = names
                .filter(|name| !matches!(*name, "mod" | "lib"))
                .map(str::to_owned);
            files.insert(module.collect(), path);
        }
    }
}

fn without_comments(text: &str) -> String {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// Every path of `code` that begins at the crate or above `module`, from the crate on.
fn paths(code: &str, module: &[String]) -> Vec<Module> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let is_start = !code[..at].ends_with(|c: char| c == ':' || c == '_' || c.is_alphanumeric());
        if is_start {
            let mut base = module.to_vec();
            let mut rest = &code[at..];
            if let Some(after) = rest.strip_prefix("crate::") {
                base.clear();
                rest = after;
            }
            while let Some(after) = rest.strip_prefix("super::") {
                base.pop();
                rest = after;
            }
            tree(&base, rest, &mut found);
        }
    }
    found
}

/// Reads one path, or a tree of them, behind `base`; gives what follows.
fn tree<'a>(base: &[String], text: &'a str, found: &mut Vec<Module>) -> &'a str {
    let mut path = base.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                rest = tree(&path, rest, found);
                let next = rest.find([',', '}']).unwrap_or(rest.len());
                rest = rest[next..].trim_start_matches(',').trim_start();
            }
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric());
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        path.push(name.to_owned());
        match after.strip_prefix("::") {
            Some(more) => rest = more,
            None => {
                found.push(path);
                return after;
            }
        }
    }
}
