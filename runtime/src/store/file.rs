use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use fs4::{FileExt, TryLockError};
use rocketmq_consumer_core::action::Former;
use rocketmq_consumer_core::event::{Found, StoreError};
use rocketmq_consumer_core::ids::{StoreKey, StoreKind};
use rocketmq_consumer_core::wire::kept_offsets::LEN_MAX;

use super::path::{folder, with_ending};
use super::{OpenStore, Store};
use crate::error::BoxError;

/// Files in a folder for each instance and group: `<dir>/<instance>/<group>/offsets.json`.
///
/// Beside it lie `offsets.json.bak`, which is what was stored before, `offsets.json.lock`, which keeps a second
/// process out as long as this one lives, and perhaps `offsets.json.damaged`, which could not be read. A file is
/// replaced as a whole: written under another name, flushed to the disk, and renamed.
///
/// The Java client keeps its file in the same place, with its client id for the instance: a consumer whose instance is
/// named `10.0.0.5@DEFAULT` goes on where the Java consumer of that id has ended. That one cannot read what is
/// written here. In names other characters than letters, digits and `@#._-` are written as `%` and two digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStore {
    dir: PathBuf,
}

impl FileStore {
    /// Files below this folder. It is made when it is needed.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Files where the Java client has its own by default: `.rocketmq_offsets` in the user's home. `None` when there
    /// is no home.
    #[must_use]
    pub fn in_home() -> Option<Self> {
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty())?;
        Some(Self::new(home.join(".rocketmq_offsets")))
    }

    fn path(&self, key: &StoreKey) -> PathBuf {
        let name = match key.kind {
            StoreKind::Offsets => "offsets.json",
            // Never in the way of what is known.
            _ => "other.json",
        };
        self.dir
            .join(folder(&key.instance))
            .join(folder(key.group.as_str()))
            .join(name)
    }
}

impl Store for FileStore {
    fn place(&self, key: &StoreKey) -> String {
        self.path(key).display().to_string()
    }

    fn open(&self, key: &StoreKey) -> Result<Box<dyn OpenStore>, StoreError> {
        let main = self.path(key);
        let lock = with_ending(&main, ".lock");
        let failed = |error: io::Error| StoreError::Failed(format!("{}: {error}", lock.display()).into());
        if let Some(dir) = main.parent() {
            fs::create_dir_all(dir).map_err(failed)?;
        }
        // It stays when the process has ended: whoever removed it could remove that of a third one.
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock)
            .map_err(failed)?;
        // Not a method call: the standard library has a method of that name since 1.89.
        match FileExt::try_lock(&file) {
            Ok(()) => Ok(Box::new(Files { main, _lock: file })),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// The files of one group, held by their lock.
struct Files {
    main: PathBuf,
    _lock: File,
}

impl OpenStore for Files {
    fn load(&mut self) -> Result<Found, BoxError> {
        Ok(Found {
            main: read(&self.main)?,
            backup: read(&with_ending(&self.main, ".bak"))?,
        })
    }

    fn save(&mut self, content: &Bytes, former: Former) -> Result<(), BoxError> {
        let new = with_ending(&self.main, ".tmp");
        write(&new, content).map_err(|error| about(&new, &error))?;
        self.put_aside(former)
            .map_err(|error| about(&self.main, &error))?;
        fs::rename(&new, &self.main).map_err(|error| about(&self.main, &error))?;
        self.flush_folder().map_err(|error| about(&self.main, &error))?;
        Ok(())
    }
}

impl Files {
    /// Makes room for the new content. Should the process end here, the backup is what was stored last.
    fn put_aside(&self, former: Former) -> io::Result<()> {
        let ending = match former {
            Former::Backup => ".bak",
            // What a later version means to say: it is kept at least.
            Former::Aside | _ => ".damaged",
        };
        match fs::metadata(&self.main) {
            // An empty file is no backup.
            Ok(metadata) if metadata.len() == 0 => Ok(()),
            Ok(_) => fs::rename(&self.main, with_ending(&self.main, ending)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A rename is safe when its folder is.
    #[cfg(unix)]
    fn flush_folder(&self) -> io::Result<()> {
        self.main
            .parent()
            .map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    }

    /// Elsewhere a folder cannot be flushed: a loss of power may bring back what was stored before.
    #[cfg(not(unix))]
    fn flush_folder(&self) -> io::Result<()> {
        Ok(())
    }
}

fn read(path: &Path) -> Result<Option<Bytes>, BoxError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about(path, &error)),
    };
    let mut content = Vec::new();
    // One byte more tells that it is too long.
    file.take(LEN_MAX as u64 + 1)
        .read_to_end(&mut content)
        .map_err(|error| about(path, &error))?;
    Ok(Some(content.into()))
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn about(path: &Path, error: &io::Error) -> BoxError {
    format!("{}: {error}", path.display()).into()
}

#[cfg(test)]
mod tests;
