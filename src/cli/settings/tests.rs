use super::*;

#[test]
fn a_path_without_its_parents_leads_to_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(real.join("a/b")).unwrap();
    std::os::unix::fs::symlink(real.join("a/b"), real.join("link")).unwrap();
    let resolved = |path: &str| resolve_parents(&real.join(path));
    assert_eq!(resolved("a/../cache/new"), real.join("cache/new"));
    assert_eq!(resolved("link/../cache"), real.join("a/cache"));
    assert_eq!(resolved("link/cache"), real.join("link/cache"));
    assert_eq!(resolved("missing/../cache"), real.join("missing/../cache"));
}

/// A home, a repository, and the environment of a command in it.
struct Place {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, OsString)>,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("repository/.git")).unwrap();
        std::fs::create_dir_all(folder.path().join("repository/deep/down")).unwrap();
        std::fs::create_dir_all(folder.path().join("home/.config/replay")).unwrap();
        let variables = vec![("HOME", folder.path().join("home").into())];
        Place { folder, variables }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn with_repository(self, text: &str) -> Place {
        std::fs::write(self.path("repository/replay.config.toml"), text).unwrap();
        self
    }

    fn with_project(self, text: &str) -> Place {
        std::fs::write(self.path("repository/pyproject.toml"), text).unwrap();
        self
    }

    fn with_user(self, text: &str) -> Place {
        std::fs::write(self.path("home/.config/replay/config.toml"), text).unwrap();
        self
    }

    fn with_variable(mut self, name: &'static str, value: impl Into<OsString>) -> Place {
        self.variables.retain(|(known_name, _)| *known_name != name);
        self.variables.push((name, value.into()));
        self
    }

    fn load_with(&self, flags: Layer, folder: &str) -> CliResult<Settings> {
        let read = |name: &str| {
            let found = self.variables.iter().find(|(known_name, _)| *known_name == name);
            found.map(|(_, value)| value.clone())
        };
        Settings::load_from(flags, true, &read, &self.path(folder))
    }

    fn load(&self) -> CliResult<Settings> {
        self.load_with(Layer::default(), "repository")
    }

    /// Value and origin of `key`.
    fn told(&self, key: Key) -> String {
        match self.load() {
            Ok(settings) => describe_line(&settings.line(key), self),
            Err(error) => panic!("{}", error.in_a_line()),
        }
    }

    /// The error on these settings.
    fn refused(&self) -> String {
        let error = self.load().map(drop).expect_err("the settings are refused");
        assert_eq!(error.exit_code(), 128);
        self.shorten(&error.text().words().join("\n"))
    }

    fn shorten(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "")
    }
}

fn describe_line(line: &SettingLine, place: &Place) -> String {
    place.shorten(&format!("{} by {}", line.value.as_deref().unwrap_or("-"), line.origin))
}

/// For each key a value of its own in a flag, a variable, the repository's file and the user's.
const ROWS: [(Key, [&str; 4]); 12] = [
    (Key::Backend, ["cuda:1", "cpu,cuda", "", "'cuda:3'"]),
    (Key::Timeout, ["1", "2.5", "3", "4"]),
    (Key::Memory, ["1G", "2G", "'3G'", "'4G'"]),
    (Key::Threads, ["1", "2", "", "4"]),
    (Key::Jobs, ["1", "2", "3", "4"]),
    (Key::Gradients, ["off", "quick", "3.5", "'full'"]),
    (Key::Sandbox, ["off", "default", "'strict'", "'off'"]),
    (Key::Color, ["always", "never", "", "'always'"]),
    (Key::Cxx, ["", "clang++ -O1", "", "'g++'"]),
    (Key::CacheDir, ["", "/variable", "", "'/user'"]),
    (Key::CacheShared, ["", "/variable", "", "'~/user'"]),
    (Key::CacheSize, ["1G", "2G", "", "4096"]),
];

/// The line of a file that sets `key` to `value`.
fn write_toml_line(key: Key, value: &str) -> String {
    format!("{} = {value}\n", key.name())
}

#[test]
fn an_option_goes_before_a_variable_before_the_repository_before_the_user_before_the_default() {
    let mut told = String::new();
    for (key, [flag, variable, repository, user]) in ROWS {
        let mut place = Place::new();
        let mut line = vec![place.told(key)];
        place = place.with_user(&format!("# Mine\n{}", write_toml_line(key, user)));
        line.push(place.told(key));
        if !repository.is_empty() {
            place = place.with_repository(&write_toml_line(key, repository));
            line.push(place.told(key));
        }
        place = place.with_variable(key.variable(), variable);
        line.push(place.told(key));
        if !flag.is_empty() {
            let mut flags = Layer::default();
            flags.set(key, flag.as_ref(), Origin::Flag("--flag")).unwrap();
            let settings = place.load_with(flags, "repository").unwrap();
            line.push(describe_line(&settings.line(key), &place));
        }
        // The default is as many as there are cores.
        if matches!(key, Key::Threads | Key::Jobs) {
            line[0] = "the cores by default".to_owned();
        }
        told += &format!("{}: {}\n", key.name(), line.join("; "));
    }
    let told = told.replace("/home/.config/replay/config.toml", "USER");
    insta::assert_snapshot!(told.replace("replay.config.toml", "REPOSITORY"), @"
    backend: cpu by default; cuda:3 by USER:2; cpu,cuda by REPLAY_BACKEND; cuda:1 by --flag
    timeout: 60 by default; 4 by USER:2; 3 by REPOSITORY:1; 2.5 by REPLAY_TIMEOUT; 1 by --flag
    memory: 16G by default; 4G by USER:2; 3G by REPOSITORY:1; 2G by REPLAY_MEMORY; 1G by --flag
    threads: the cores by default; 4 by USER:2; 2 by REPLAY_THREADS; 1 by --flag
    jobs: the cores by default; 4 by USER:2; 3 by REPOSITORY:1; 2 by REPLAY_JOBS; 1 by --flag
    gradients: 120 by default; full by USER:2; 3.5 by REPOSITORY:1; quick by REPLAY_GRADIENTS; off by --flag
    sandbox: default by default; off by USER:2; strict by REPOSITORY:1; default by REPLAY_SANDBOX; off by --flag
    color: auto by default; always by USER:2; never by REPLAY_COLOR; always by --flag
    cxx: - by default; g++ by USER:2; clang++ -O1 by CXX
    cache.dir: /home/.cache by default; /user by USER:2; /variable by REPLAY_CACHE_DIR
    cache.shared: - by default; /home/user by USER:2; /variable by REPLAY_SHARED_CACHE_DIR
    cache.size: - by default; 4K by USER:2; 2G by REPLAY_CACHE_SIZE; 1G by --flag
    ");
}

#[test]
fn a_repository_lowers_a_users_limit_and_does_not_raise_it() {
    let place = Place::new().with_user("timeout = 90\nmemory = '8G'\njobs = 4\n");
    let place = place.with_repository("timeout = 300\nmemory = '4G'\njobs = 8\n");
    assert_eq!(place.told(Key::Timeout), "90 by /home/.config/replay/config.toml:1");
    assert_eq!(place.told(Key::Memory), "4G by replay.config.toml:2");
    assert_eq!(place.told(Key::Jobs), "4 by /home/.config/replay/config.toml:3");
}

#[test]
fn what_a_repository_may_not_set_is_refused_with_its_line() {
    let mut told = String::new();
    for line in [
        "backend = 'cuda'",
        "threads = 1",
        "color = 'never'",
        "cxx = './evil.sh'",
        "cache.dir = '/tmp'",
        "cache.shared = '~/x'",
        "cache.size = 1",
        "sandbox = 'off'",
        "sandbox = 'default'",
        "timeout = 601",
        "memory = '17G'",
        "jobs = 9",
        "gradients = 'full'",
        "gradients = 601",
    ] {
        let place = Place::new().with_repository(line);
        told += &place.refused();
        told += "\n";
        assert!(Place::new().with_user(line).load().is_ok(), "{line}");
    }
    insta::assert_snapshot!(told, @r#"
    error: `backend` at replay.config.toml:1:1 is not for a repository: code on a GPU has fewer walls around it
      |
    1 | backend = 'cuda'
      | ^^^^^^^
    hint: set it in /home/.config/replay/config.toml, or by REPLAY_BACKEND
    error: `threads` at replay.config.toml:1:1 is not for a repository: the cores are the machine's
      |
    1 | threads = 1
      | ^^^^^^^
    hint: set it in /home/.config/replay/config.toml, or by REPLAY_THREADS
    error: `color` at replay.config.toml:1:1 is not for a repository: the terminal is the user's
      |
    1 | color = 'never'
      | ^^^^^
    hint: set it in /home/.config/replay/config.toml, or by REPLAY_COLOR
    error: `cxx` at replay.config.toml:1:1 is not for a repository: it names a program to start
      |
    1 | cxx = './evil.sh'
      | ^^^
    hint: set it in /home/.config/replay/config.toml, or by CXX
    error: `cache.dir` at replay.config.toml:1:7 is not for a repository: it says where files are written
      |
    1 | cache.dir = '/tmp'
      |       ^^^
    hint: set it in /home/.config/replay/config.toml, or by REPLAY_CACHE_DIR
    error: `cache.shared` at replay.config.toml:1:7 is not for a repository: it says where files are written
      |
    1 | cache.shared = '~/x'
      |       ^^^^^^
    hint: set it in /home/.config/replay/config.toml, or by REPLAY_SHARED_CACHE_DIR
    error: `cache.size` at replay.config.toml:1:7 is not for a repository: it says which files are removed
      |
    1 | cache.size = 1
      |       ^^^^
    hint: set it in /home/.config/replay/config.toml, or by REPLAY_CACHE_SIZE
    error: `sandbox` at replay.config.toml:1:11: a repository may ask for "strict" alone
      |
    1 | sandbox = 'off'
      |           ^^^^^
    error: `sandbox` at replay.config.toml:1:11: a repository may ask for "strict" alone
      |
    1 | sandbox = 'default'
      |           ^^^^^^^^^
    error: `timeout` at replay.config.toml:1:11: a repository may ask for at most 600
      |
    1 | timeout = 601
      |           ^^^
    error: `memory` at replay.config.toml:1:10: a repository may ask for at most 16G
      |
    1 | memory = '17G'
      |          ^^^^^
    error: `jobs` at replay.config.toml:1:8: a repository may ask for at most 8
      |
    1 | jobs = 9
      |        ^
    error: `gradients` at replay.config.toml:1:13: a repository may ask for at most 600
      |
    1 | gradients = 'full'
      |             ^^^^^^
    error: `gradients` at replay.config.toml:1:13: a repository may ask for at most 600
      |
    1 | gradients = 601
      |             ^^^
    "#);
}

#[test]
fn without_a_home_the_hint_on_a_refused_key_names_the_variable() {
    let place = Place::new().with_repository("threads = 1").with_variable("HOME", "");
    assert!(place.refused().ends_with("\nhint: set it by REPLAY_THREADS"), "{}", place.refused());
}

#[test]
fn wrong_settings_are_refused_with_their_place() {
    let mut told = String::new();
    for text in [
        "timeot = 5",
        "cache.sice = '1G'",
        "cache = 3",
        "memory = 1.5",
        "timeout = 'long'",
        "timeout = -1",
        "timeout = nan",
        "threads = 2.0",
        "jobs = 'four'",
        "jobs = 99999999999999999999999999999999999999999",
        "gradients = true",
        "gradients = 'some'",
        "backend = ['cpu', 1]",
        "backend = 'gpu'",
        "sandbox = 'non'",
        "color = false",
        "cxx = ['g++']",
        "cache.dir = 'here'",
        "cache.size = 'x'",
        "timeout = 5\ntimeout = 6",
        "timeout =",
    ] {
        told += &Place::new().with_user(text).refused();
        told += "\n";
    }
    insta::assert_snapshot!(told.replace("/home/.config/replay/config.toml", "USER"), @r#"
    error: unknown key `timeot` at USER:1:1, did you mean `timeout`?
      |
    1 | timeot = 5
      | ^^^^^^
    hint: the keys known there are backend, timeout, memory, threads, jobs, gradients, sandbox, color, cxx, cache
    error: unknown key `cache.sice` at USER:1:7, did you mean `size`?
      |
    1 | cache.sice = '1G'
      |       ^^^^
    hint: the keys known there are dir, shared, size
    error: `cache` at USER:1:9 must be a table, not an integer
      |
    1 | cache = 3
      |         ^
    error: `memory` at USER:1:10 must be a size, such as "16G", not a float
      |
    1 | memory = 1.5
      |          ^^^
    error: `timeout` at USER:1:11 must be a number of seconds, not a string
      |
    1 | timeout = 'long'
      |           ^^^^^^
    error: `timeout` at USER:1:11: must be more than 0
      |
    1 | timeout = -1
      |           ^^
    error: `timeout` at USER:1:11: not a number of seconds
      |
    1 | timeout = nan
      |           ^^^
    error: `threads` at USER:1:11 must be a whole number, not a float
      |
    1 | threads = 2.0
      |           ^^^
    error: `jobs` at USER:1:8 must be a whole number, not a string
      |
    1 | jobs = 'four'
      |        ^^^^^^
    error: `jobs` at USER:1:8 must be a whole number, not one that is too large
      |
    1 | jobs = 99999999999999999999999999999999999999999
      |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    error: `gradients` at USER:1:13 must be "off", "quick", "full" or a number of seconds, not a boolean
      |
    1 | gradients = true
      |             ^^^^
    error: `gradients` at USER:1:13: it is off, quick, full or a number of seconds
      |
    1 | gradients = 'some'
      |             ^^^^^^
    error: `backend[1]` at USER:1:19 must be a string, not an integer
      |
    1 | backend = ['cpu', 1]
      |                   ^
    error: `backend` at USER:1:11: the devices are cpu, cuda and cuda:N
      |
    1 | backend = 'gpu'
      |           ^^^^^
    error: `sandbox` at USER:1:11: it is one of strict, default, off
      |
    1 | sandbox = 'non'
      |           ^^^^^
    error: `color` at USER:1:9 must be a string, not a boolean
      |
    1 | color = false
      |         ^^^^^
    error: `cxx` at USER:1:7 must be a string, not a list
      |
    1 | cxx = ['g++']
      |       ^^^^^^^
    error: `cache.dir` at USER:1:13: it must be an absolute path, or begin with ~/
      |
    1 | cache.dir = 'here'
      |             ^^^^^^
    error: `cache.size` at USER:1:14: the units are K, M, G, T
      |
    1 | cache.size = 'x'
      |              ^^^
    error: USER:2:1 is not valid TOML
      |
    2 | timeout = 6
      | ^^^^^^^
    caused by: duplicate key
    error: USER:1:10 is not valid TOML
      |
    1 | timeout =
      |          ^
    caused by: string values must be quoted, expected literal string
    "#);
}

#[test]
fn a_variable_that_is_not_understood_is_refused_by_its_name() {
    let mut told = String::new();
    for (key, _) in ROWS {
        let place = Place::new().with_variable(key.variable(), "?");
        match place.load() {
            Ok(_) => told += &format!("{} takes anything\n", key.variable()),
            Err(error) => told += &format!("{}\n", error.in_a_line()),
        }
    }
    use std::os::unix::ffi::OsStringExt;
    let place = Place::new().with_variable("REPLAY_TIMEOUT", OsString::from_vec(vec![0xff]));
    told += &place.load().unwrap_err().in_a_line();
    insta::assert_snapshot!(told, @"
    REPLAY_BACKEND is not understood: the devices are cpu, cuda and cuda:N
    REPLAY_TIMEOUT is not understood: not a number of seconds
    REPLAY_MEMORY is not understood: not a whole number of bytes, such as 512M or 64G
    REPLAY_THREADS is not understood: not a whole number
    REPLAY_JOBS is not understood: not a whole number
    REPLAY_GRADIENTS is not understood: it is off, quick, full or a number of seconds
    REPLAY_SANDBOX is not understood: it is one of strict, default, off
    REPLAY_COLOR is not understood: it is one of auto, always, never
    CXX takes anything
    REPLAY_CACHE_DIR takes anything
    REPLAY_SHARED_CACHE_DIR takes anything
    REPLAY_CACHE_SIZE is not understood: not a whole number of bytes, such as 512M or 64G
    REPLAY_TIMEOUT is not understood: it is no text
    ");
}

#[test]
fn an_empty_variable_and_an_empty_file_set_nothing() {
    let place = Place::new().with_repository("").with_user("# nothing\n");
    let place = place.with_variable("REPLAY_TIMEOUT", "").with_variable("REPLAY_CACHE_DIR", "");
    let settings = place.load().unwrap();
    assert!(settings.lines().iter().all(|line| line.origin == Origin::Default));
    assert_eq!(settings.files.repository, Some("replay.config.toml".into()));
    assert_eq!(settings.files.user, Some(place.path("home/.config/replay/config.toml")));
}

#[test]
fn without_a_home_there_are_neither_a_users_file_nor_a_cache() {
    let place = Place::new().with_user("timeout = 5").with_variable("HOME", "");
    let settings = place.load().unwrap();
    assert_eq!(settings.files, ConfigFiles::default());
    let error = settings.cache_folder().unwrap_err();
    insta::assert_snapshot!(error.text().words().join("\n"), @"
    error: no place for the cache: neither REPLAY_CACHE_DIR nor HOME is set
    hint: set REPLAY_CACHE_DIR to a folder that can be written
    ");
}

#[test]
fn the_users_file_lies_where_the_xdg_specification_says() {
    let place = Place::new().with_user("timeout = 5");
    std::fs::create_dir_all(place.path("xdg/replay")).unwrap();
    std::fs::write(place.path("xdg/replay/config.toml"), "timeout = 6").unwrap();
    let xdg = place.path("xdg");
    let place = place.with_variable("XDG_CONFIG_HOME", xdg);
    assert_eq!(place.told(Key::Timeout), "6 by /xdg/replay/config.toml:1");
    let place = place.with_variable("XDG_CONFIG_HOME", "relative");
    assert_eq!(place.told(Key::Timeout), "5 by /home/.config/replay/config.toml:1");
}

#[test]
fn the_users_file_may_be_a_link() {
    let place = Place::new();
    std::fs::write(place.path("dotfiles"), "timeout = 5").unwrap();
    let file = place.path("home/.config/replay/config.toml");
    std::os::unix::fs::symlink(place.path("dotfiles"), file).unwrap();
    assert_eq!(place.told(Key::Timeout), "5 by /home/.config/replay/config.toml:1");
}

#[test]
fn the_nearest_file_up_to_the_root_of_the_repository_is_read() {
    let place = Place::new().with_repository("timeout = 5");
    std::fs::write(place.path("replay.config.toml"), "timeout = 7").unwrap();
    let timeout = |folder: &str| {
        let settings = place.load_with(Layer::default(), folder).unwrap();
        describe_line(&settings.line(Key::Timeout), &place)
    };
    assert_eq!(timeout("repository/deep/down"), "5 by /repository/replay.config.toml:1");
    std::fs::write(place.path("repository/deep/replay.config.toml"), "").unwrap();
    assert_eq!(timeout("repository/deep/down"), "60 by default");
    assert_eq!(timeout("repository"), "5 by replay.config.toml:1");
    assert_eq!(timeout("home"), "60 by default");
}

#[test]
fn a_project_in_python_has_settings_in_a_table() {
    let place = Place::new().with_project("[tool.ruff]\nx = 1\n[tool.replay]\ntimeout = 5\n");
    assert_eq!(place.told(Key::Timeout), "5 by pyproject.toml:4");
    let place = place.with_project("[tool.replay]\ncache.dir = '/tmp'\ntimeout = 'x'");
    insta::assert_snapshot!(place.refused(), @"
    error: `tool.replay.cache.dir` at pyproject.toml:2:7 is not for a repository: it says where files are written
      |
    2 | cache.dir = '/tmp'
      |       ^^^
    hint: set it in /home/.config/replay/config.toml, or by REPLAY_CACHE_DIR
    ");
    let place = place.with_project("[tool.replay]\ntimeout = 5").with_repository("");
    insta::assert_snapshot!(place.refused(), @"
    error: there are settings in replay.config.toml and in [tool.replay] of pyproject.toml beside it
    hint: keep one of them
    ");
}

#[test]
fn a_project_without_settings_is_none_of_ours_whatever_is_wrong_with_it() {
    for text in ["[tool.ruff", "[tool]\nruff = 1", "[project]\nname = 'replay'", ""] {
        let place = Place::new().with_project(text);
        assert_eq!(place.load().unwrap().files, ConfigFiles::default(), "{text}");
    }
    let place = Place::new();
    std::fs::write(place.path("repository/pyproject.toml"), b"# replay \xff").unwrap();
    assert!(place.load().is_ok());
    let place = Place::new();
    std::fs::create_dir(place.path("repository/pyproject.toml")).unwrap();
    assert!(place.load().is_ok());
}

#[test]
fn a_file_that_is_none_or_has_no_end_is_refused() {
    let mut told = String::new();
    let file = "repository/replay.config.toml";
    let place = Place::new();
    std::fs::create_dir(place.path(file)).unwrap();
    told += &place.refused();
    let place = Place::new();
    std::fs::write(place.path(file), b"timeout = 5\n# \xff\n").unwrap();
    told += &format!("\n{}", place.refused());
    let place = Place::new();
    let huge = std::fs::File::create(place.path(file)).unwrap();
    huge.set_len(1 << 40).unwrap();
    told += &format!("\n{}", place.refused());
    let place = Place::new();
    std::fs::create_dir(place.path("home/.config/replay/config.toml")).unwrap();
    told += &format!("\n{}", place.refused());
    insta::assert_snapshot!(told, @"
    error: failed to read replay.config.toml
    caused by: it is a folder, not a file
    error: failed to read replay.config.toml
    caused by: line 2 is not UTF-8
    error: failed to read replay.config.toml
    caused by: it has 1099511627776 bytes, more than the 1048576 that are read
    error: failed to read /home/.config/replay/config.toml
    caused by: it is a folder, not a file
    ");
}

#[test]
fn a_file_of_a_repository_that_leads_out_of_it_is_not_read() {
    let place = Place::new();
    let secret = place.path("home/secret");
    std::fs::write(&secret, "[tool.replay]\npassword = 'x'\n").unwrap();
    let file = place.path("repository/replay.config.toml");
    std::os::unix::fs::symlink(&secret, &file).unwrap();
    let leading_out = place.refused();
    assert!(!leading_out.contains("password"), "{leading_out}");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/nowhere", &file).unwrap();
    insta::assert_snapshot!(format!("{leading_out}\n{}", place.refused()), @"
    error: replay.config.toml leads out of the repository, to /home/secret
    hint: settings of a repository lie in it: put the file itself there
    error: failed to read replay.config.toml
    caused by: No such file or directory (os error 2)
    ");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(place.path("repository/deep/settings"), "timeout = 5").unwrap();
    std::os::unix::fs::symlink("deep/settings", &file).unwrap();
    assert_eq!(place.told(Key::Timeout), "5 by replay.config.toml:1");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&secret, place.path("repository/pyproject.toml")).unwrap();
    assert_eq!(place.load().unwrap().files, ConfigFiles::default());
}

#[test]
fn a_variable_keeps_all_files_from_being_read() {
    let place = Place::new().with_repository("timeout =").with_user("timeout =");
    let place = place.with_variable(NO_CONFIG, "1");
    assert_eq!(place.told(Key::Timeout), "60 by default");
    assert!(place.with_variable(NO_CONFIG, "0").load().is_err());
}

#[test]
fn colours_follow_variables_of_all_programs_but_for_our_own() {
    let place = Place::new().with_user("color = 'always'").with_variable("NO_COLOR", "1");
    assert_eq!(place.told(Key::Color), "never by NO_COLOR");
    let place = place.with_variable("REPLAY_COLOR", "auto");
    assert_eq!(place.told(Key::Color), "auto by REPLAY_COLOR");
    let place = Place::new().with_user("color = 'never'").with_variable("CLICOLOR_FORCE", "1");
    assert_eq!(place.told(Key::Color), "always by CLICOLOR_FORCE");
    let place = place.with_variable("CLICOLOR_FORCE", "0");
    assert_eq!(place.told(Key::Color), "never by /home/.config/replay/config.toml:1");
}

#[test]
fn other_processes_have_the_same_settings_by_variables() {
    let place = Place::new().with_repository("timeout = 5").with_user("cxx = 'clang++'");
    let place = place.with_variable("REPLAY_JOBS", "3");
    let settings = place.load().unwrap();
    assert_eq!(
        settings.variables(),
        [
            ("REPLAY_NO_CONFIG", "1".into()),
            ("REPLAY_TIMEOUT", "5".into()),
            ("REPLAY_JOBS", "3".into()),
            ("CXX", "clang++".into()),
        ]
    );
    assert_eq!(settings.jobs_on_cluster(), Some(3));
    let place = Place::new().with_user("jobs = 3");
    assert_eq!(place.load().unwrap().jobs_on_cluster(), None);
}
