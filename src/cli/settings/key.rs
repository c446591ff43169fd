//! The keys of settings: their names, their variables and options, and who may set them.

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Backend,
    Timeout,
    Memory,
    Threads,
    Jobs,
    Gradients,
    Sandbox,
    Color,
    Cxx,
    CacheDir,
    CacheShared,
    CacheSize,
}

/// What a file may say for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyShape {
    /// A string.
    Text,
    /// An integer.
    Count,
    /// An integer or a float.
    Number,
    /// A string with a unit, or an integer of bytes.
    Size,
    /// A word or a number of seconds.
    Effort,
    /// A string or a list of them.
    Words,
}

impl KeyShape {
    /// The shape in words, behind "must be".
    pub fn expected(self) -> &'static str {
        match self {
            KeyShape::Text => "a string",
            KeyShape::Count => "a whole number",
            KeyShape::Number => "a number of seconds",
            KeyShape::Size => "a size, such as \"16G\"",
            KeyShape::Effort => "\"off\", \"quick\", \"full\" or a number of seconds",
            KeyShape::Words => "a device or a list of devices, such as \"cpu\"",
        }
    }
}

impl Key {
    /// All of them, in the order of `replay config`.
    pub const ALL: [Key; 12] = [
        Key::Backend,
        Key::Timeout,
        Key::Memory,
        Key::Threads,
        Key::Jobs,
        Key::Gradients,
        Key::Sandbox,
        Key::Color,
        Key::Cxx,
        Key::CacheDir,
        Key::CacheShared,
        Key::CacheSize,
    ];

    /// The name in a file; a key of a table has the table's name in front.
    pub fn name(self) -> &'static str {
        match self {
            Key::Backend => "backend",
            Key::Timeout => "timeout",
            Key::Memory => "memory",
            Key::Threads => "threads",
            Key::Jobs => "jobs",
            Key::Gradients => "gradients",
            Key::Sandbox => "sandbox",
            Key::Color => "color",
            Key::Cxx => "cxx",
            Key::CacheDir => "cache.dir",
            Key::CacheShared => "cache.shared",
            Key::CacheSize => "cache.size",
        }
    }

    /// The key of this name.
    pub fn from_name(name: &str) -> Option<Key> {
        Key::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The environment variable.
    pub fn variable(self) -> &'static str {
        match self {
            Key::Backend => "REPLAY_BACKEND",
            Key::Timeout => "REPLAY_TIMEOUT",
            Key::Memory => "REPLAY_MEMORY",
            Key::Threads => "REPLAY_THREADS",
            Key::Jobs => "REPLAY_JOBS",
            Key::Gradients => "REPLAY_GRADIENTS",
            Key::Sandbox => "REPLAY_SANDBOX",
            Key::Color => "REPLAY_COLOR",
            Key::Cxx => "CXX",
            Key::CacheDir => "REPLAY_CACHE_DIR",
            Key::CacheShared => "REPLAY_SHARED_CACHE_DIR",
            Key::CacheSize => "REPLAY_CACHE_SIZE",
        }
    }

    /// What a file may say.
    pub fn shape(self) -> KeyShape {
        match self {
            Key::Backend => KeyShape::Words,
            Key::Timeout => KeyShape::Number,
            Key::Memory | Key::CacheSize => KeyShape::Size,
            Key::Threads | Key::Jobs => KeyShape::Count,
            Key::Gradients => KeyShape::Effort,
            Key::Sandbox | Key::Color | Key::Cxx | Key::CacheDir | Key::CacheShared => {
                KeyShape::Text
            }
        }
    }

    /// Why no repository may set it, if none may: the file of a checkout may come from a stranger.
    pub fn why_not_for_repositories(self) -> Option<&'static str> {
        match self {
            Key::Timeout | Key::Memory | Key::Jobs | Key::Gradients | Key::Sandbox => None,
            Key::Backend => Some("code on a GPU has fewer walls around it"),
            Key::Threads => Some("the cores are the machine's"),
            Key::Color => Some("the terminal is the user's"),
            Key::Cxx => Some("it names a program to start"),
            Key::CacheDir | Key::CacheShared => Some("it says where files are written"),
            Key::CacheSize => Some("it says which files are removed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_name_and_a_variable_of_its_own() {
        for key in Key::ALL {
            assert_eq!(Key::from_name(key.name()), Some(key));
            let same = Key::ALL.into_iter().filter(|other| other.variable() == key.variable());
            assert_eq!(same.count(), 1, "{}", key.name());
        }
        assert_eq!(Key::from_name("cache"), None);
    }
}
