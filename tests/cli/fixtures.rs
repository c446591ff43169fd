//! Broken fixtures: each names the file, the tensor or the size, and ends with 128.

use std::fs;

use replay::tensor::DType;

use crate::common::env::TestEnv;

/// A safetensors file of a header and data that need not fit.
fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

const TWO_SIZES: &str = "sources = [\"k.cu\"]\ncall = \"y = 0;\"\n\
    [inputs.x]\ndtype = \"f32\"\nshape = [\"rows\", \"n\"]\n\
    [inputs.z]\ndtype = \"i32\"\nshape = [\"n\"]\n\
    [outputs.y]\ndtype = \"f32\"\nshape = []\n";

#[test]
fn every_malformed_file_is_refused_by_name() {
    let env = TestEnv::new().with_kernel("", "y[0] = x[0];");
    let whole = fs::read(env.path("fixtures/tiny/inputs.safetensors")).unwrap();
    let tensor = |begin: usize, end: usize| {
        format!("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[{begin},{end}]")
    };
    let files = [
        ("empty", Vec::new()),
        ("truncated header", whole[..20].to_vec()),
        ("truncated data", whole[..whole.len() - 1].to_vec()),
        ("oversized header", [&(1u64 << 40).to_le_bytes()[..], b"{}"].concat()),
        ("no JSON", safetensors("{\"x\": ", 16)),
        (
            "overlapping",
            safetensors(
                &format!("{{\"x\":{{{}}},\"z\":{{{}}}}}", tensor(0, 16), tensor(8, 24)),
                24,
            ),
        ),
        ("beyond the end", safetensors(&format!("{{\"x\":{{{}}}}}", tensor(16, 32)), 16)),
    ];
    let mut told = String::new();
    for (what, bytes) in files {
        fs::write(env.path("fixtures/tiny/inputs.safetensors"), bytes).unwrap();
        told += &format!("== {what}: {}", env.replay(&["fixtures/tiny"]).text());
    }
    insta::assert_snapshot!(told, @"
    == empty: exit code 128
    --- stderr
    error: fixtures/tiny/inputs.safetensors has 0 bytes, too few for the header of a safetensors file
    hint: copy or capture the file again
    == truncated header: exit code 128
    --- stderr
    error: the header of fixtures/tiny/inputs.safetensors claims to have 56 bytes, but only 12 follow
    hint: copy or capture the file again: it was not written to its end
    == truncated data: exit code 128
    --- stderr
    error: fixtures/tiny/inputs.safetensors is truncated: tensor `x` ends at byte 80, the file at byte 79
    hint: copy or capture the file again: it was not written to its end
    == oversized header: exit code 128
    --- stderr
    error: the header of fixtures/tiny/inputs.safetensors claims to have 1099511627776 bytes, more than the format allows
    hint: is it a safetensors file at all?
    == no JSON: exit code 128
    --- stderr
    error: the header of fixtures/tiny/inputs.safetensors is not valid JSON
    caused by: EOF while parsing a value at line 1 column 6
    == overlapping: exit code 128
    --- stderr
    error: tensors `x` and `z` in fixtures/tiny/inputs.safetensors overlap by 8 bytes
    hint: write the file again with a safetensors library
    == beyond the end: exit code 128
    --- stderr
    error: 16 bytes before tensor `x` in fixtures/tiny/inputs.safetensors belong to no tensor
    hint: write the file again with a safetensors library
    ");
}

#[test]
fn tensors_that_do_not_fit_the_harness_are_refused_by_name() {
    let env = TestEnv::new().with_kernel("", "y[0] = x[0];");
    env.repo.write("replay.toml", TWO_SIZES);
    let x = ("x", DType::F32, &[2, 3][..], &[0; 24][..]);
    let z = ("z", DType::I32, &[3][..], &[0; 12][..]);
    let fixtures = [
        ("wrong dtype", vec![x, ("z", DType::I64, &[3], &[0; 24])]),
        ("wrong rank", vec![("x", DType::F32, &[6], &[0; 24]), z]),
        ("sizes disagree", vec![x, ("z", DType::I32, &[4], &[0; 16])]),
        ("missing", vec![x]),
        ("surplus", vec![x, z, ("w", DType::F32, &[1], &[0; 4])]),
    ];
    let mut told = String::new();
    for (what, tensors) in fixtures {
        env.write_fixture("tiny", &tensors);
        told += &format!("== {what}: {}", env.replay(&["fixtures/tiny"]).text());
    }
    insta::assert_snapshot!(told, @"
    == wrong dtype: exit code 128
    --- stderr
    error: tensor `z` in fixtures/tiny/inputs.safetensors is i64, but replay.toml declares i32
    == wrong rank: exit code 128
    --- stderr
    error: tensor `x` in fixtures/tiny/inputs.safetensors has the shape [6], but replay.toml declares [rows, n]
    == sizes disagree: exit code 128
    --- stderr
    error: size `n` is 3 by `x` in fixtures/tiny/inputs.safetensors, but 4 by `z` in fixtures/tiny/inputs.safetensors
    == missing: exit code 128
    --- stderr
    error: input `z` of replay.toml is missing from fixtures/tiny/inputs.safetensors
    hint: capture it, or declare it `optional = true` if `call` takes a null pointer
    == surplus: exit code 128
    --- stderr
    error: tensor `w` in fixtures/tiny/inputs.safetensors is not an input of replay.toml, did you mean `x`?
    ");
}

#[test]
fn a_folder_that_is_no_fixture_and_a_manifest_that_is_wrong_are_refused() {
    let env = TestEnv::new().with_kernel("", "y[0] = x[0];");
    let mut told = String::new();
    let mut ask =
        |what: &str, path: &str| told += &format!("== {what}: {}", env.replay(&[path]).text());
    ask("none", "fixtures/none");
    ask("no manifest", ".git");
    ask("a file", "fixtures/tiny/fixture.toml");
    env.repo.write("fixtures/tiny/fixture.toml", "harnes = \"../../replay.toml\"\n");
    ask("unknown key", "fixtures/tiny");
    env.repo.write("fixtures/tiny/fixture.toml", "harness = \"nowhere.toml\"\n");
    ask("no harness", "fixtures/tiny");
    let hash = "0".repeat(64);
    env.repo.write(
        "fixtures/tiny/fixture.toml",
        format!(
            "harness = \"../../replay.toml\"\n[[files]]\npath = \"inputs.safetensors\"\nblake3 = \"{hash}\"\n"
        ),
    );
    ask("another hash", "fixtures/tiny");
    insta::assert_snapshot!(told, @r#"
    == none: exit code 128
    --- stderr
    error: there is no fixture folder fixtures/none
    hint: a fixture is a folder with fixture.toml and *.safetensors
    == no manifest: exit code 128
    --- stderr
    error: .git is not a fixture: it holds no fixture.toml
    hint: a fixture is a folder with fixture.toml and *.safetensors
    == a file: exit code 128
    --- stderr
    error: there is no fixture folder fixtures/tiny/fixture.toml
    hint: name the folder, not a file in it
    == unknown key: exit code 128
    --- stderr
    error: unknown key `harnes` at fixtures/tiny/fixture.toml:1:1, did you mean `harness`?
      |
    1 | harnes = "../../replay.toml"
      | ^^^^^^
    hint: the keys known there are harness, description, provenance, snapshot, oracle, files, captured, metrics, scalars, sizes
    == no harness: exit code 128
    --- stderr
    error: failed to read fixtures/tiny/nowhere.toml
    caused by: No such file or directory (os error 2)
    hint: `harness` in fixture.toml is relative to that file
    == another hash: exit code 128
    --- stderr
    error: fixtures/tiny/inputs.safetensors has the blake3 hash 08ffea7dd7eb5059d0a6d3a44dfa9eed534b93fe7cf5a3eb854d6a394794dddb, but fixture.toml gives 0000000000000000000000000000000000000000000000000000000000000000
    hint: restore the file; if the change was meant, put its new hash into fixture.toml
    "#);
}
