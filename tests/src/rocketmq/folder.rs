//! A private folder that goes with its owner, unless a test failed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use super::LaunchError;

/// A new folder below the system's temporary one. `Drop` removes it; while panicking it is kept and its path
/// printed, because the logs in it say why.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(purpose: &str) -> Result<Self, LaunchError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        loop {
            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("rocketmq-{purpose}-{}-{serial}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left by a failed test whose process had the number that we have now.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(LaunchError::io(format!("creating {}", path.display()))(e)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("stores and logs are kept in {}", self.0.display());
        } else {
            // A folder that cannot be removed is litter, not a failure of the test.
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Creates `path` and what is above it.
pub(crate) fn create(path: &Path) -> Result<(), LaunchError> {
    fs::create_dir_all(path).map_err(LaunchError::io(format!("creating {}", path.display())))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), LaunchError> {
    fs::write(path, text).map_err(LaunchError::io(format!("writing {}", path.display())))
}

/// The last lines of the files that exist, for an error message.
pub(crate) fn tail(files: &[PathBuf]) -> String {
    // A stack trace of Netty is 40 lines long, and what went wrong is its first.
    const LINES: usize = 80;
    let mut out = String::new();
    for file in files {
        let Ok(bytes) = fs::read(file) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        if !shown.is_empty() {
            out.push_str(&format!("--- {}\n{}\n", file.display(), shown.join("\n")));
        }
    }
    out
}
