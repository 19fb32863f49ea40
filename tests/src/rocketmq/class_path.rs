//! Builds the Java side once per target directory and version of its sources.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

use super::folder;
use super::{LaunchError, Version};

/// How servers and clients log: one small file each.
pub(crate) const LOGBACK: &str = include_str!("../../rocketmq/src/main/resources/rmq.logback.xml");

/// The Maven project, carried in the library so that it also works from another workspace's tests.
const SOURCES: &[(&str, &str)] = &[
    ("pom.xml", include_str!("../../rocketmq/pom.xml")),
    ("servers.xml", include_str!("../../rocketmq/servers.xml")),
    ("src/main/resources/rmq.logback.xml", LOGBACK),
    (
        "src/main/java/rocketmq/consumer/testing/Flags.java",
        include_str!("../../rocketmq/src/main/java/rocketmq/consumer/testing/Flags.java"),
    ),
    (
        "src/main/java/rocketmq/consumer/testing/Guard.java",
        include_str!("../../rocketmq/src/main/java/rocketmq/consumer/testing/Guard.java"),
    ),
    (
        "src/main/java/rocketmq/consumer/testing/JavaConsumer.java",
        include_str!("../../rocketmq/src/main/java/rocketmq/consumer/testing/JavaConsumer.java"),
    ),
    (
        "src/main/java/rocketmq/consumer/testing/JavaProducer.java",
        include_str!("../../rocketmq/src/main/java/rocketmq/consumer/testing/JavaProducer.java"),
    ),
    (
        "src/main/java/rocketmq/consumer/testing/Peer.java",
        include_str!("../../rocketmq/src/main/java/rocketmq/consumer/testing/Peer.java"),
    ),
    (
        "src/main/java/rocketmq/consumer/testing/Strategies.java",
        include_str!("../../rocketmq/src/main/java/rocketmq/consumer/testing/Strategies.java"),
    ),
];

/// Our wrappers and the jars of this release, building or fetching them first if need be: with the Java clients
/// for the current release, only the servers for another one. Test binaries that run at the same time wait for
/// each other.
pub(crate) fn class_path(version: Version) -> Result<String, LaunchError> {
    static KNOWN: Mutex<BTreeMap<Version, String>> = Mutex::new(BTreeMap::new());
    // Held while building: the other threads of this program wait here. A panic leaves no half-made entry.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = known.get(&version) {
        return Ok(path.clone());
    }
    let folder = build_folder();
    folder::create(&folder)?;
    let lock_path = folder.join("lock");
    let lock =
        File::create(&lock_path).map_err(LaunchError::io(format!("creating {}", lock_path.display())))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|e| LaunchError::io(format!("locking {}", lock_path.display()))(e.into()))?;
    let current = once(&folder.join("classpath"), || build(&folder))?;
    let path = if version == Version::CURRENT {
        current
    } else {
        once(&folder.join(format!("servers-{version}")), || {
            servers(&folder, version)
        })?
    };
    known.insert(version, path.clone());
    Ok(path)
}

/// What an earlier run left in `marker`, or what `make` makes, which is then written there: so its presence means
/// a finished build.
fn once(marker: &Path, make: impl FnOnce() -> Result<String, LaunchError>) -> Result<String, LaunchError> {
    match fs::read_to_string(marker) {
        Ok(text) if text.split(':').all(|entry| Path::new(entry).exists()) => Ok(text),
        // Absent, or the local Maven repository was emptied since.
        Ok(_) | Err(_) => {
            let text = make()?;
            folder::write(marker, &text)?;
            Ok(text)
        }
    }
}

/// `target/rocketmq/<hash of the sources>`; `ROCKETMQ_TESTING_DIR` stands for `target` where it is set.
fn build_folder() -> PathBuf {
    let base = env::var_os("ROCKETMQ_TESTING_DIR").map_or_else(target_folder, PathBuf::from);
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    base.join("rocketmq").join(format!("{:016x}", hasher.finish()))
}

/// Cargo's target directory: the nearest folder above this program that carries cargo's cache tag.
fn target_folder() -> PathBuf {
    env::current_exe()
        .ok()
        .and_then(|exe| {
            exe.ancestors()
                .find(|dir| dir.join("CACHEDIR.TAG").exists())
                .map(Path::to_path_buf)
        })
        .unwrap_or_else(env::temp_dir)
}

fn build(folder: &Path) -> Result<String, LaunchError> {
    for (name, text) in SOURCES {
        let path = folder.join(name);
        folder::create(path.parent().expect("every source lies in the build folder"))?;
        folder::write(&path, text)?;
    }
    maven(
        folder,
        &[
            "compile",
            "dependency:build-classpath",
            "-Dmdep.outputFile=target/jars",
        ],
    )?;
    with_classes(folder, "target/jars")
}

/// The servers of another release. They are started by the same guard, which knows nothing of RocketMQ.
fn servers(folder: &Path, version: Version) -> Result<String, LaunchError> {
    let jars = format!("target/jars-{version}");
    let (release, output) = (
        format!("-Drocketmq.version={version}"),
        format!("-Dmdep.outputFile={jars}"),
    );
    maven(
        folder,
        &[
            "-f",
            "servers.xml",
            "dependency:build-classpath",
            &release,
            &output,
        ],
    )?;
    with_classes(folder, &jars)
}

/// Our own classes, then the jars that Maven listed in a file.
fn with_classes(folder: &Path, jars: &str) -> Result<String, LaunchError> {
    let jars = folder.join(jars);
    let jars = fs::read_to_string(&jars).map_err(LaunchError::io(format!("reading {}", jars.display())))?;
    Ok(format!(
        "{}:{}",
        folder.join("target/classes").display(),
        jars.trim()
    ))
}

/// Runs Maven: offline first, which is quicker, and works on a train.
fn maven(folder: &Path, arguments: &[&str]) -> Result<(), LaunchError> {
    if maven_once(folder, arguments, true)?.0 {
        return Ok(());
    }
    match maven_once(folder, arguments, false)? {
        (true, _) => Ok(()),
        (false, output) => Err(LaunchError::Build {
            folder: folder.to_path_buf(),
            output,
        }),
    }
}

/// Whether it succeeded, and the end of what it printed.
fn maven_once(folder: &Path, arguments: &[&str], offline: bool) -> Result<(bool, String), LaunchError> {
    let mut command = Command::new("mvn");
    command.args(["-q", "-B"]).args(arguments);
    if offline {
        command.arg("-o");
    }
    let output = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| LaunchError::Tool {
            program: "mvn".into(),
            source,
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    let end = lines
        .get(lines.len().saturating_sub(30)..)
        .unwrap_or_default()
        .join("\n");
    Ok((output.status.success(), end))
}
