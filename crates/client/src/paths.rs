//! Paths as text, for people and in JSON. Every path can be written as text and read back.
//!
//! For people a path is [quoted](shown) for the shell. In JSON it is its own text if that is UTF-8.
//! In any other path, each byte that is not UTF-8 becomes U+0000 and the byte's two hexadecimal
//! digits. No path contains U+0000, so the text is unique.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use os_display::Quotable as _;

/// What comes before the digits of a byte.
const ESCAPE: char = '\0';

/// A path in messages and in advised commands.
#[derive(Clone, Copy, Debug)]
pub struct Shown<P>(P);

/// A path for people: it can be pasted into a shell (bash, zsh, ksh), and is quoted only if needed.
/// No control character of it reaches a terminal.
#[must_use]
pub fn shown<P: AsRef<Path>>(path: P) -> Shown<P> {
    Shown(path)
}

impl<P: AsRef<Path>> fmt::Display for Shown<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().maybe_quote().external(true).fmt(f)
    }
}

/// A path's text in JSON.
#[must_use]
pub fn to_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // It never fails.
            let _ = write!(text, "{ESCAPE}{byte:02x}");
        }
    }
    text
}

/// The path with this text. An invalid escape stays as it is: no file has such a name.
#[must_use]
pub fn from_text(text: &str) -> PathBuf {
    let mut parts = text.split(ESCAPE);
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let rest = match byte {
            Some(byte) => {
                bytes.push(byte);
                &part[2..]
            }
            None => {
                bytes.push(0);
                part
            }
        };
        bytes.extend_from_slice(rest.as_bytes());
    }
    OsString::from_vec(bytes).into()
}

/// For `serde(with)` of a path.
pub mod one {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    /// # Errors
    /// As the serializer's.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::to_text(path))
    }

    /// # Errors
    /// If it is none.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(super::from_text(&String::deserialize(from)?))
    }
}

/// For `serde(with)` of an optional path.
pub mod option {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// # Errors
    /// As the serializer's.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::to_text).serialize(to)
    }

    /// # Errors
    /// If it is none.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        Ok(text.as_deref().map(super::from_text))
    }
}

/// For `serde(with)` of paths.
pub mod list {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serializer};

    /// # Errors
    /// As the serializer's.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| super::to_text(path)))
    }

    /// # Errors
    /// If it is none.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        Ok(texts.iter().map(|text| super::from_text(text)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_pasted_into_a_shell_and_does_nothing_to_a_terminal() {
        for (path, text) in [
            (&b"/dev/disk/by-id/nvme-X_1.2:3,a@b%c+d"[..], "/dev/disk/by-id/nvme-X_1.2:3,a@b%c+d"),
            (b"m0", "m0"),
            (b"", "''"),
            (b"my disk", "'my disk'"),
            (b"it's", "\"it's\""),
            (b"$(reboot);\"'", r#"'$(reboot);"'\'"#),
            (b"~", "'~'"),
            (b"a\x1b[2Jb\n", r"$'a\x1B[2Jb\n'"),
            (b"m\xff0", r"$'m\xFF'$'0'"),
        ] {
            let path = OsString::from_vec(path.to_vec());
            assert_eq!(shown(&path).to_string(), text);
        }
    }

    #[test]
    fn every_path_comes_back_and_what_is_utf_8_is_its_own_text() {
        for path in ["/dev/sdb", "a b/\\x2d%ff é", ""] {
            assert_eq!(to_text(Path::new(path)), path);
            assert_eq!(from_text(path), Path::new(path));
        }
        let all: Vec<u8> = (1..=255).collect();
        for bytes in [&all[..], b"\xff", b"a\xc3", b"\xe2\x82/\xf0\x9f\x92\xa9\xff01"] {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            assert_eq!(from_text(&to_text(&path)), path);
        }
        assert_eq!(to_text(Path::new(&OsString::from_vec(b"m\xff0".to_vec()))), "m\0ff0");
        // Whatever a client sends.
        for text in ["\0", "\0f", "\0é0", "\0zz", "\0\0ff"] {
            assert!(from_text(text).as_os_str().as_bytes().contains(&0), "{text:?}");
        }
    }
}
