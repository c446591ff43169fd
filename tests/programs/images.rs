//! Programs in container images: folders and archives made here, and a stand-in for a container runtime.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::TENSORS;
use crate::common::env::{Run, TestEnv};

/// Answers with a file of its image, to replays in the usual precision alone.
const STEP: &str = "\
[ \"$REPLAY_PRECISION\" = native ] || exit 125
cat /answer > \"$REPLAY_OUTPUTS\"
";
/// Ends with another status for each of what must not be.
const ISOLATED_STEP: &str = "\
[ -f \"$REPLAY_INPUTS\" ] && [ -f \"$REPLAY_TREE/kernel.txt\" ] || exit 21
[ -e /proc/self/stat ] && [ -c /dev/null ] && echo > /dev/null || exit 22
[ -e HOST ] && exit 23
echo > /answer && exit 24
echo > HERE/new && exit 25
echo > \"$TMPDIR/new\" || exit 26
[ \"$PLACE\" = image ] && [ \"$HOME\" = /root ] || exit 27
[ \"$(pwd)\" = HERE ] || exit 28
cat /proc/self/mountinfo > \"$TMPDIR/mounts\" || exit 29
";
/// Plays podman: it has the images in its folder `images`, and says why it does not get others.
const PODMAN: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/asked"
case "$1 $2" in
    "version "*) [ ! -e "$here/broken" ] || { echo 'the daemon sleeps' >&2; exit 1; } ;;
    "image inspect") [ -d "$here/images/$3" ] || exit 1
        echo "[{\"Id\": \"sha256:$3\", \"Config\": {\"Env\": [\"PLACE=image\"]}}]" ;;
    "pull --quiet") echo 'it is asked for' >&2; cat "$here/reason" >&2; exit 1 ;;
    "create "*) echo "$2" ;;
    "export --output") tar -C "$here/images/${4#sha256:}" -cf "$3" . ;;
    "rm "*) ;;
    *) exit 9 ;;
esac
"#;

/// An archive of tensors: a loss, and a gradient of four elements.
fn answer(loss: f32) -> Vec<u8> {
    let header = r#"{"loss":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"dx":{"dtype":"F32","shape":[4],"data_offsets":[4,20]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    [loss, 1.0, 1.0, 1.0, 1.0].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

/// A shell and `cat` of this machine as an image at `root`, with the answer `loss`.
fn write_image(root: &Path, loss: f32) {
    for program in ["/bin/sh", "/bin/cat"] {
        copy_into(root, Path::new(program));
        let listed = Command::new("ldd").arg(program).output().expect("ldd").stdout;
        let listed = String::from_utf8(listed).expect("text");
        listed.split_whitespace().filter(|word| word.starts_with('/')).for_each(|library| {
            copy_into(root, Path::new(library));
        });
    }
    fs::create_dir_all(root.join("proc")).expect("a folder");
    fs::write(root.join("answer"), answer(loss)).expect("an answer");
}

fn copy_into(root: &Path, file: &Path) {
    let target = root.join(file.strip_prefix("/").expect("an absolute path"));
    fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
    fs::copy(file, target).expect("a file of this machine");
}

/// A project with the program `step` and these `images`; its stand-in for podman is in the folder `bin` beside it.
fn with_images(step: &str, images: &[&str]) -> TestEnv {
    let env = TestEnv::isolated();
    let axes = format!(
        "program = [\"sh\", \"step.sh\"]\ntree = [\"kernel.txt\"]\n[axes]\nimage = {images:?}\n{TENSORS}"
    );
    env.repo.write("replay.toml", axes);
    env.repo.write(".gitignore", "fixtures\nreplay.toml\nstep.sh\n");
    let here = env.path("").canonicalize().expect("a folder").display().to_string();
    let outside = env.repo.beside("outside");
    fs::write(&outside, "").expect("a file");
    let step = step.replace("HERE", &here).replace("HOST", &outside.display().to_string());
    env.repo.write("step.sh", step);
    env.write_tiny();
    env.repo.commit_file("kernel.txt", "", "Have a kernel");
    fs::create_dir_all(bin(&env).join("images")).expect("a folder");
    for (name, script) in [("podman", PODMAN), ("python3", "#!/bin/sh\nexit 1\n")] {
        let file = bin(&env).join(name);
        fs::write(&file, script).expect("a script");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    env
}

fn bin(env: &TestEnv) -> PathBuf {
    env.repo.beside("bin")
}

/// Runs replay with the stand-in first in `PATH`, or with a folder without any runtime.
fn replay(env: &TestEnv, words: &[&str]) -> Run {
    let path = std::env::var("PATH").expect("PATH");
    let mut command = env.command(words);
    command.env("PATH", format!("{}:{path}", bin(env).display()));
    env.finish(&mut command)
}

fn diff(env: &TestEnv, images: &str) -> Run {
    replay(env, &["diff", "fixtures/tiny", "--with", &format!("image={images}")])
}

/// What the stand-in was asked.
fn asked(env: &TestEnv) -> String {
    let text = fs::read_to_string(bin(env).join("asked")).unwrap_or_default();
    let first_words = text.lines().map(|line| line.split(' ').next().unwrap_or_default());
    first_words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_search_along_images_names_the_first_bad_one() {
    let env = with_images(STEP, &["first", "second", "third", "absent"]);
    let images = bin(&env).join("images");
    for (name, loss) in [("first", 1.0), ("second", 1.0), ("third", 2.0)] {
        write_image(&images.join(name), loss);
    }
    let words = ["bisect", "fixtures/tiny", "--over", "image", "--good", "first", "--bad", "third"];
    let found = replay(&env, &words);
    assert!(found.stdout.starts_with("image third is the first bad one"), "{}", found.text());
    assert!(
        found.stdout.contains("-image ") && found.stdout.contains("+image "),
        "{}",
        found.text()
    );
    let exported = asked(&env).matches("export").count();
    assert_eq!(exported, 3, "each once: {}", asked(&env));
    fs::remove_dir_all(&images).expect("no images any more");
    fs::write(bin(&env).join("broken"), "").expect("a mark");
    for kind in ["outcomes", "judgements"] {
        fs::remove_dir_all(env.cache().join(kind)).expect("no results any more");
    }
    let again = replay(&env, &words);
    assert_eq!(again.stdout, found.stdout, "the cache needs no runtime: {}", again.stderr);
    let placed =
        ["bisect", "fixtures/tiny", "--good", "HEAD@image=first", "--bad", "HEAD@image=third"];
    let placed = replay(&env, &placed);
    assert!(placed.stdout.contains("image third is the first bad one"), "{}", placed.text());
    let cache = replay(&env, &["cache"]).stdout;
    assert!(cache.contains("images            3 entries"), "{cache}");
    let removed = replay(&env, &["cache", "gc", "--days", "0"]);
    assert_eq!(removed.code, Some(0), "{}", removed.text());
    assert!(replay(&env, &["cache"]).stdout.contains("images            0 entries"));
}

#[test]
fn an_image_that_cannot_be_had_is_untestable_and_a_runtime_without_an_answer_is_the_machines_fault()
{
    let env = with_images(STEP, &["./first", "absent", "./none", "./broken.tar"]);
    write_image(&env.path("first"), 1.0);
    env.repo.write("broken.tar", "this is no archive".repeat(99));
    fs::write(bin(&env).join("reason"), "manifest unknown\n").expect("a reason");
    let mut messages = vec![
        diff(&env, "./first,absent").text(),
        diff(&env, "./first,./none").text(),
        diff(&env, "./first,./broken.tar").text(),
    ];
    fs::write(bin(&env).join("reason"), "dial tcp: no answer\n").expect("a reason");
    messages.push(diff(&env, "./first,absent").text());
    fs::write(bin(&env).join("broken"), "").expect("a mark");
    messages.push(diff(&env, "./first,absent").text());
    let mut command = env.command(&["diff", "fixtures/tiny", "--with", "image=./first,absent"]);
    messages.push(env.finish(command.env("PATH", "/nowhere")).text());
    insta::assert_snapshot!(messages.join("\n"), @"
    exit code 125
    --- stderr
    error: podman cannot get the image absent
    caused by: it is asked for
      manifest unknown

    exit code 125
    --- stderr
    error: there is no image ./none
    hint: a path counts from the harness's folder, and leads to a folder with an image's files, or to an archive of an image

    exit code 125
    --- stderr
    error: cannot unpack the image ./broken.tar
    caused by: it is no whole tar archive

    exit code 128
    --- stderr
    error: podman cannot get the image absent
    caused by: it is asked for
      dial tcp: no answer
    hint: podman is asked as you have configured it; what is in the cache needs no registry

    exit code 128
    --- stderr
    error: podman does not work here
    caused by: the daemon sleeps
    hint: install or start one; the path of a folder or of a saved archive needs none, nor does what is in the cache

    exit code 128
    --- stderr
    error: there is no container runtime: podman, docker or apptainer
    hint: install or start one; the path of a folder or of a saved archive needs none, nor does what is in the cache
    ");
}

#[test]
fn a_program_in_an_image_sees_what_a_replay_needs_and_changes_nothing() {
    let env = with_images(&format!("{ISOLATED_STEP}{STEP}"), &["first", "./second"]);
    write_image(&bin(&env).join("images/first"), 1.0);
    write_image(&env.path("second"), 1.0);
    for sandbox in ["default", "off"] {
        let words = ["diff", "fixtures/tiny", "--with", "image=first,first", "--sandbox", sandbox];
        let run = replay(&env, &words);
        assert!(
            run.code == Some(0) && run.stdout.contains("identical"),
            "{sandbox}: {}",
            run.text()
        );
    }
    let second = diff(&env, "first,./second");
    assert!(
        second.text().contains("exit status 27"),
        "a folder has no variables: {}",
        second.text()
    );
}

#[test]
fn doctor_tells_what_exports_images_and_a_system_without_namespaces_is_refused() {
    let env = with_images(STEP, &["./first", "absent", "./none"]);
    write_image(&env.path("first"), 1.0);
    let axis = |run: Run| {
        let lines = run.stdout.lines().filter(|line| line.contains("image: "));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let mut messages = vec![axis(replay(&env, &["doctor"]))];
    fs::write(bin(&env).join("broken"), "").expect("a mark");
    messages.push(axis(replay(&env, &["doctor"])));
    let closed = |words: &[&str]| {
        let inner = env.command(words);
        let mut command = Command::new("unshare");
        let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
        command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]);
        command.arg(inner.get_program()).args(inner.get_args());
        env.settle(&mut command);
        let path = std::env::var("PATH").expect("PATH");
        command.env("PATH", format!("{}:{path}", bin(&env).display()));
        env.finish(&mut command)
    };
    messages.push(axis(closed(&["doctor"])));
    messages.push(closed(&["diff", "fixtures/tiny", "--with", "image=./first,./none"]).text());
    insta::assert_snapshot!(messages.join("\n"), @"
    none    axis          image: ./none is not here; podman exports images; programs start in them
    none    axis          image: ./none is not here; podman does not work here: the daemon sleeps; programs start in them
    none    axis          image: programs cannot be started in an image here: cannot make a user namespace: No space left on device (os error 28)
    exit code 128
    --- stderr
    error: programs cannot be started in an image here: cannot make a user namespace: No space left on device (os error 28)
    hint: it takes user namespaces, which `sysctl user.max_user_namespaces`, AppArmor (`kernel.apparmor_restrict_unprivileged_userns`) or the container around may forbid
    ");
}
