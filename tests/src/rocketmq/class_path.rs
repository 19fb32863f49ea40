//! Builds the Java side once per target directory and version of its sources.

use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

use super::LaunchError;
use super::folder;

/// The Maven project, carried in the library so that it also works from another workspace's tests.
const SOURCES: &[(&str, &str)] = &[
    ("pom.xml", include_str!("../../rocketmq/pom.xml")),
    (
        "src/main/resources/rmq.logback.xml",
        include_str!("../../rocketmq/src/main/resources/rmq.logback.xml"),
    ),
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

/// The class path of RocketMQ, its clients and our wrappers, building them first if need be. Test binaries
/// that run at the same time wait for each other.
pub(crate) fn class_path() -> Result<&'static str, LaunchError> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known);
    }
    let folder = build_folder();
    folder::create(&folder)?;
    let lock_path = folder.join("lock");
    let lock =
        File::create(&lock_path).map_err(LaunchError::io(format!("creating {}", lock_path.display())))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|e| LaunchError::io(format!("locking {}", lock_path.display()))(e.into()))?;
    // Written last by us, so that its presence means a finished build.
    let marker = folder.join("classpath");
    let built = match fs::read_to_string(&marker) {
        Ok(text) if text.split(':').all(|entry| Path::new(entry).exists()) => text,
        // Absent, or the local Maven repository was emptied since.
        Ok(_) | Err(_) => {
            let text = build(&folder)?;
            folder::write(&marker, &text)?;
            text
        }
    };
    Ok(KNOWN.get_or_init(|| built))
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
    // Offline first: it is quicker, and works on a train.
    if !maven(folder, true)?.0 {
        let (done, output) = maven(folder, false)?;
        if !done {
            return Err(LaunchError::Build {
                folder: folder.to_path_buf(),
                output,
            });
        }
    }
    let jars = folder.join("target/jars");
    let jars = fs::read_to_string(&jars).map_err(LaunchError::io(format!("reading {}", jars.display())))?;
    Ok(format!(
        "{}:{}",
        folder.join("target/classes").display(),
        jars.trim()
    ))
}

/// Whether it succeeded, and the end of what it printed.
fn maven(folder: &Path, offline: bool) -> Result<(bool, String), LaunchError> {
    let mut command = Command::new("mvn");
    command.args([
        "-q",
        "-B",
        "compile",
        "dependency:build-classpath",
        "-Dmdep.outputFile=target/jars",
    ]);
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
